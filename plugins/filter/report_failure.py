# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..module_utils._words import counted

DOCUMENTATION = r"""
name: report_failure
short_description: Decide whether the problems in a report make a run fail
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Lists the problems in a report that have at least the given severity.
positional: _input, fail_on
options:
  _input:
    description: Report, as returned by P(gpulab.kubernetes.report_state#filter).
    type: dict
    required: true
  fail_on:
    description: Minimum severity that makes the run fail.
    type: str
    choices: [error, warning, never]
    required: true
"""

EXAMPLES = r"""
- name: Fail if the report contains an error
  ansible.builtin.assert:
    that: report | gpulab.kubernetes.report_failure('error') | length == 0
"""

RETURN = r"""
_value:
  description: One sentence that lists the problems, or empty.
  type: str
"""

_SEVERITIES = {"never": (), "error": ("error",), "warning": ("error", "warning")}


def report_failure(report: Mapping[str, Any], fail_on: str) -> str:
    found = [each for each in report.get("actions", []) if each["severity"] in _SEVERITIES[fail_on]]
    if not found:
        return ""
    named = "; ".join(f"{each['host'] or 'cluster'}: {each['what'].rstrip('.')}" for each in found)
    count = counted(len(found), "problem")
    return f"Error while reporting the present state: {count} (acceptance_report_fail_on is {fail_on}): {named}."


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"report_failure": report_failure}
