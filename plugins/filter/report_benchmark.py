# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._report.benchmark import add_result
from ..plugin_utils._report.read import ReportError, read_report, read_seen

DOCUMENTATION = r"""
name: report_benchmark
short_description: Add the figures of the GPUs to a report
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Adds the result of M(gpulab.kubernetes.gpu_benchmark) to an existing report. GPUs that were not measured keep their
    last figures, unless their pod failed.
positional: _input, result
options:
  _input:
    description: The report as JSON.
    type: raw
    required: true
  result:
    description: Result of M(gpulab.kubernetes.gpu_benchmark).
    type: dict
    required: true
seealso:
  - plugin: gpulab.kubernetes.report_state
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Add the figures to the report
  ansible.builtin.set_fact:
    report: "{{ lookup('ansible.builtin.file', 'gpulab-report.json') | gpulab.kubernetes.report_benchmark(figures) }}"
"""

RETURN = r"""
_value:
  description: The report, empty if the input is not a report.
  type: dict
"""


def report_benchmark(report: Any, result: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found = read_report(report)
    except ReportError:
        return {}
    return add_result(found, read_seen(result))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"report_benchmark": report_benchmark}
