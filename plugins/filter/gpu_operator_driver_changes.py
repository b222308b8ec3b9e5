# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

DOCUMENTATION = r"""
name: gpu_operator_driver_changes
short_description: Find changes to the driver that the GPU Operator has installed
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Compares the parts of a chart's ClusterPolicy that determine the driver's pods with the ClusterPolicy in the
    cluster. To replace these pods, the operator deletes pods that use GPUs, node by node.
positional: _input, policies
options:
  _input:
    description: Objects rendered by the chart, as returned by M(gpulab.kubernetes.helm_chart_info).
    type: list
    elements: dict
    required: true
  policies:
    description: >-
      The cluster's policies by name, as returned by M(gpulab.kubernetes.gpu_plugins_info) (C(driver_policies)).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show whether the driver would change
  ansible.builtin.debug:
    msg: "{{ chart.objects | gpulab.kubernetes.gpu_operator_driver_changes(gpu_plugins.driver_policies) }}"
"""

RETURN = r"""
_value:
  description: Fields that differ. Empty if the operator has not installed a driver.
  type: list
  elements: str
  sample: [daemonsets.tolerations, driver.version]
"""

_PARTS = ("driver", "daemonsets", "hostPaths")
# How the operator replaces pods, which replaces none.
_PASSED_OVER = {"driver.upgradePolicy", "driver.rollingUpdate", "daemonsets.updateStrategy", "daemonsets.rollingUpdate"}


def gpu_operator_driver_changes(rendered: Iterable[Mapping[str, Any]], policies: Mapping[str, Any]) -> list[str]:
    changed: set[str] = set()
    try:
        for policy in rendered:
            there = policies.get(policy["metadata"]["name"]) or {} if policy["kind"] == "ClusterPolicy" else {}
            if (there.get("driver") or {}).get("enabled"):
                found, wanted = _fields(there), _fields(policy.get("spec") or {})
                changed |= {name for name in found | wanted if found.get(name) != wanted.get(name)}
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(f"Error while comparing the GPU Operator's drivers: {error!r}") from error
    return sorted(changed)


def _fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    found = {f"{part}.{name}": _comparable(value) for part in _PARTS for name, value in (spec.get(part) or {}).items()}
    return {name: value for name, value in found.items() if value and name not in _PASSED_OVER}


def _comparable(value: Any) -> Any:
    """Without what is empty or false, which the API and the chart leave out at will, and scalars as texts."""
    if isinstance(value, Mapping):
        made = {name: _comparable(each) for name, each in value.items()}
        return {name: each for name, each in made.items() if each}
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    return str(value) if value else ""


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"gpu_operator_driver_changes": gpu_operator_driver_changes}
