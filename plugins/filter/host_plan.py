# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: host_plan
short_description: Determine which roles have pending changes on a host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - A role is pending if one of its states is pending, or if another pending role needs it. The container toolkit needs
    a working driver, so if its role is pending, the driver's role is also pending.
  - If the host could not be read, all of its roles are pending, so that the role concerned reports the problem.
positional: _input, roles, finished, driver_source, driver_loaded
options:
  _input:
    description: Result of M(gpulab.kubernetes.host_state) in check mode, with states named C(role/state).
    type: dict
    required: true
  roles:
    description: Roles of this host, in order.
    type: list
    elements: str
    required: true
  finished:
    description: Whether the host is part of the cluster.
    type: bool
    default: true
  driver_source:
    description: Where the host's driver comes from, as in C(nvidia_driver_source).
    type: str
    default: cuda_repository
  driver_loaded:
    description: >-
      Whether the driver is loaded. If it is not, and the collection does not install it, the driver's role is pending.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Show which roles have pending changes
  ansible.builtin.debug:
    msg: "{{ {'states': {'host/swap': {'changed': true}}} | gpulab.kubernetes.host_plan(['host', 'containerd']) }}"
"""

RETURN = r"""
_value:
  description: Pending changes, as a list by role. Roles without pending changes are omitted.
  type: dict
  sample: {host: [swap], kubeadm: [membership in the cluster]}
"""

# Role -> the role without which it can't do its work.
_NEEDS = {"nvidia_container_toolkit": "nvidia_driver"}


def host_plan(
    reading: Mapping[str, Any],
    roles: Iterable[str],
    finished: bool = True,
    driver_source: str = "cuda_repository",
    driver_loaded: bool = True,
) -> dict[str, list[str]]:
    roles = list(roles)
    if _unread(reading, roles):
        return {role: ["everything, since the host could not be read"] for role in roles}
    found: dict[str, list[str]] = {role: [] for role in roles}
    for name, result in reading["states"].items():
        role, _separator, state = name.partition("/")
        if result["changed"]:
            found[role].append(state + _restart(result))
    if not finished:
        found["kubeadm"].append("membership in the cluster")
    if "nvidia_driver" in found and driver_source in ("preinstalled", "daemonset") and not driver_loaded:
        found["nvidia_driver"].append("an answer")
    for role, needed in _NEEDS.items():
        if found.get(role) and not found.get(needed, True):
            found[needed].append("an answer")
    return {role: words for role, words in found.items() if words}


def _unread(reading: Mapping[str, Any], roles: list[str]) -> bool:
    """Whether what is pending is unknown. A failure of a state that is none of these roles' does not matter.

    failed_when clears ``failed``, but the result still lacks the state that failed and those after it.
    """
    if "states" not in reading:
        return True
    return "failed_state" in reading and str(reading["failed_state"]).partition("/")[0] in roles


def _restart(result: Mapping[str, Any]) -> str:
    return " (restart)" if result.get("restart") else ""


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"host_plan": host_plan}
