# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: gpu_operator_driver_changes
short_description: Find what the GPU Operator would change of the driver that it has installed
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Compares the driver in the ClusterPolicy that a chart renders with the one that the cluster has. To change a driver,
    the operator deletes pods that use GPUs, node by node.
positional: _input, drivers
options:
  _input:
    description: The objects that the chart renders, as M(gpulab.kubernetes.helm_chart_info) returns them.
    type: list
    elements: dict
    required: true
  drivers:
    description: The drivers of the cluster's policies by name, as M(gpulab.kubernetes.gpu_plugins_info) returns them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: See whether the driver would change
  ansible.builtin.debug:
    msg: "{{ chart.objects | gpulab.kubernetes.gpu_operator_driver_changes(plugins.drivers) }}"
"""

RETURN = r"""
_value:
  description: The fields that differ. Empty if the cluster has no driver of the operator's.
  type: list
  elements: str
  sample: [kernelModuleType, version]
"""

# How the operator goes about it, and what may be absent of a chart's ClusterPolicy.
_PASSED_OVER = {"upgradePolicy", "rollingUpdate"}
_COMPARED_IF_ABSENT = {"env", "version"}


def gpu_operator_driver_changes(rendered: Iterable[Mapping[str, Any]], drivers: Mapping[str, Any]) -> list[str]:
    changed = set()
    for policy in rendered:
        if policy.get("kind") == "ClusterPolicy":
            there = drivers.get(policy["metadata"]["name"]) or {}
            wanted = (policy.get("spec") or {}).get("driver") or {}
            if there.get("enabled"):
                names = (set(wanted) | _COMPARED_IF_ABSENT) - _PASSED_OVER
                changed |= {name for name in names if (there.get(name) or None) != (wanted.get(name) or None)}
    return sorted(changed)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"gpu_operator_driver_changes": gpu_operator_driver_changes}
