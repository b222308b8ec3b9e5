# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ..plugin_utils._report.read import read_report
from ..plugin_utils._report.summary import summary

DOCUMENTATION = r"""
name: report_summary
short_description: Return the verdict, totals and problems of a report
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Two runs with the same findings have the same summary. It contains at most 100 problems, with texts of at most 500
    characters, so that it fits into a ConfigMap.
positional: _input
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
- name: Show the totals of a report
  ansible.builtin.debug:
    msg: "{{ (lookup('ansible.builtin.file', 'gpulab-report.json') | gpulab.kubernetes.report_summary).totals }}"
"""

RETURN = r"""
_value:
  description:
    - C(verdict) (V(ok), V(warning) or V(error)), C(cluster) (C(name), C(endpoint), C(kubernetes_version)), C(verified)
      (when pods ran for the verification that is still valid), C(simulated), C(totals) (C(gpus), C(proven), C(in_use),
      C(errors), C(warnings)).
    - C(problems) (C(severity), C(problem), C(host), C(gpu), C(what), C(do)), C(problems_left_out) (the number of
      problems that were omitted).
  type: dict
"""


def report_summary(report: Any) -> dict[str, Any]:
    return summary(read_report(report))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"report_summary": report_summary}
