# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ..plugin_utils._report.junit import junit
from ..plugin_utils._report.read import read_report

DOCUMENTATION = r"""
name: report_junit
short_description: Return a report as JUnit XML
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns a test suite for each host, with a test case for each GPU and each problem, for programs that show the
    results of tests (GitHub, GitLab, Jenkins).
  - GPUs that are unhealthy or not verified are failures, other errors of the report are errors. GPUs that other pods
    use, GPUs of unreachable hosts, and warnings are skipped, with the reason.
  - Two reports that found the same give the same text.
  - Input that is not a report is an error.
options:
  _input:
    description: The report, as P(gpulab.kubernetes.report_state#filter) returns it, or as JSON.
    type: raw
    required: true
seealso:
  - plugin: gpulab.kubernetes.report_state
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Write evidence for CI
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', 'gpulab-report.json') | gpulab.kubernetes.report_junit }}"
    dest: gpulab-junit.xml
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The XML document.
  type: str
"""


def report_junit(report: Any) -> str:
    return junit(read_report(report))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"report_junit": report_junit}
