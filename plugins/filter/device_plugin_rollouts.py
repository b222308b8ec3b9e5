# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: device_plugin_rollouts
short_description: List the rollouts that must finish before the GPUs of nodes are offered
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Each sharing configuration has its own DaemonSets, so there is one rollout for each configuration.
positional: _input, namespace
options:
  _input:
    description: >-
      Nodes, each with its C(name), its C(configuration) and the C(amounts) of resources that it should offer.
    type: list
    elements: dict
    required: true
  namespace:
    description: Namespace of the device plugin.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Wait until the GPUs are offered
  gpulab.kubernetes.cluster_state:
    kubeconfig: /run/user/1000/kubeconfig
    states: "{{ [{'name': 'gpu1', 'configuration': 'exclusive', 'amounts': {'nvidia.com/gpu': 2}}]
      | gpulab.kubernetes.device_plugin_rollouts('gpulab-gpu') }}"
"""

RETURN = r"""
_value:
  description: States for M(gpulab.kubernetes.cluster_state), each of which waits for the rollout of one configuration.
  type: list
  elements: dict
"""


def device_plugin_rollouts(nodes: Iterable[Mapping[str, Any]], namespace: str) -> list[dict[str, Any]]:
    ways: dict[str, dict[str, Any]] = {}
    for node in nodes:
        ways.setdefault(node["configuration"], {})[node["name"]] = node["amounts"]
    return [
        {
            "name": f"rollout of {way}",
            "module": "wait_for_rollout",
            "args": {
                "namespace": namespace,
                "deployments": ["nfd-master"],
                "daemonsets": _daemonsets(way),
                "nodes": list(amounts),
                "allocatable": amounts,
                # Which GPU is ill and why is for acceptance to say, beside what is well.
                "tolerate_unhealthy": True,
            },
        }
        for way, amounts in sorted(ways.items())
    ]


def _daemonsets(way: str) -> list[str]:
    """The names that the template of the role gives them."""
    names = ["nvidia-device-plugin", "gpu-feature-discovery"]
    names += ["nvidia-mps-control-daemon"] if way.startswith("mps-") else []
    return [name if way == "exclusive" else f"{name}-{way}" for name in names]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"device_plugin_rollouts": device_plugin_rollouts}
