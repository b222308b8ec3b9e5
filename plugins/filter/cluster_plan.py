# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: cluster_plan
short_description: Determine which roles have pending changes in the cluster
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - If the cluster could not be read, all roles are pending, so that the role concerned reports the problem.
positional: _input, network, namespace, installers
options:
  _input:
    description: >-
      The result of M(gpulab.kubernetes.cluster_state) in check mode, whose states are C(pools), C(network),
      C(network rollout), C(plugins), C(plugin), C(sharing) and those of
      P(gpulab.kubernetes.device_plugin_rollouts#filter).
    type: dict
    required: true
  network:
    description: Value of C(cluster_network_plugin). Pending changes of the pod network are listed under this name.
    type: str
    required: true
  namespace:
    description: Namespace of the device plugin. Device plugins in other namespaces are unmanaged.
    type: str
    required: true
  installers:
    description: Whether a host of the run gets its driver from a pod.
    type: bool
    required: true
"""

EXAMPLES = r"""
- name: Show which roles have pending changes
  ansible.builtin.debug:
    msg: "{{ {'states': {}} | gpulab.kubernetes.cluster_plan('flannel', 'gpulab-gpu', false) }}"
"""

RETURN = r"""
_value:
  description: Pending changes, as a list by role. Roles without pending changes are omitted.
  type: dict
  sample: {flannel: [DaemonSet kube-flannel/kube-flannel-ds]}
"""


def cluster_plan(reading: Mapping[str, Any], network: str, namespace: str, installers: bool) -> dict[str, list[str]]:
    if "failed_state" in reading or "states" not in reading:
        roles = ("node_pools", network, "nvidia_driver_installer", "nvidia_device_plugin")
        return {role: ["everything, since the cluster could not be read"] for role in roles}
    states = reading["states"]
    plugins = states.get("plugins", {})
    found = {
        "node_pools": [f"node {name}" for name in states.get("pools", {}).get("changes", {})],
        network: [*_objects(states, "network"), *_missing(states, "network rollout")],
        "nvidia_driver_installer": [*plugins.get("installers", []), *(["the drivers of pods"] if installers else [])],
        "nvidia_device_plugin": [
            *(f"ClusterPolicy {name}" for name in plugins.get("policies", [])),
            *(_title(each) for each in plugins.get("plugins", []) if each["namespace"] != namespace),
            *(problem["what"] for problem in plugins.get("problems", [])),
            *(node["summary"] or f"sharing of {name}" for name, node in _shared(states)),
            *_objects(states, "plugin"),
            *(words for name in states if name.startswith("rollout of ") for words in _missing(states, name)),
        ],
    }
    return {role: words for role, words in found.items() if words}


def _objects(states: Mapping[str, Any], name: str) -> list[str]:
    return list(states.get(name, {}).get("changes", []))


def _missing(states: Mapping[str, Any], name: str) -> Iterator[str]:
    for each in states.get(name, {}).get("missing", []):
        yield f"{each['node']}: {each['text']}" if each.get("node") else each["text"]


def _shared(states: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, node in states.get("sharing", {}).get("nodes", {}).items():
        if node["differs"] or node["drained"]:
            yield name, node


def _title(plugin: Mapping[str, Any]) -> str:
    return f"{plugin['kind']} {plugin['namespace']}/{plugin['name']}"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cluster_plan": cluster_plan}
