# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: report_targets
short_description: Decide where a report is kept, and whether writing it is a change
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - The report records a run. Writing it is a change only if GPUs were verified in this run, or would be.
positional: _input, settings
options:
  _input:
    description: Report, empty if there is none.
    type: dict
    required: true
  settings:
    description: >-
      The paths of the C(junit) file and the C(metrics), empty for none, whether a C(config_map) is wanted, the
      C(kubeconfig) of this run (null if it was not read, and empty if there is no cluster yet), whether GPUs were
      C(verified), and why the API did not answer (C(api_failure)), or empty.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show where the report is kept
  ansible.builtin.debug:
    msg: "{{ report | gpulab.kubernetes.report_targets(settings) }}"
"""

RETURN = r"""
_value:
  description: Whether C(junit), C(metrics) and the C(config_map) are written, and whether the files are C(changed).
  type: dict
  sample: {junit: false, metrics: false, config_map: true, changed: false}
"""


def report_targets(report: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, bool]:
    answered = bool(settings["kubeconfig"]) and not settings["api_failure"]
    return {
        "junit": bool(report and settings["junit"]),
        "metrics": bool(report and settings["metrics"]),
        "config_map": bool(report and settings["config_map"] and answered),
        "changed": settings["verified"] or settings["kubeconfig"] == "",
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"report_targets": report_targets}
