# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

from ..module_utils._cluster import dcgm_exporter, objects
from ..module_utils._cluster.device_plugins import managed
from ..module_utils._nvidia import sharing as rules
from ..module_utils._nvidia.sharing import Sharing, configuration, read
from ..plugin_utils._filter_errors import filter_errors

DOCUMENTATION = r"""
name: sharing
short_description: Internal filters for the device plugin, GPU sharing and the DCGM exporter
extends_documentation_fragment: gpulab.kubernetes.internal
"""


def dcgm_exporter_plan(found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Decide whether the DCGM exporter can be installed, and what of it to remove."""
    # asdict fails because it copies containers by type, and Ansible's types don't support that.
    plan = dcgm_exporter.plan(found, wanted)
    return {"obstacle": plan.obstacle, "removed": list(plan.removed), "kept": plan.kept}


@filter_errors()
def device_plugin_config(declarations: Iterable[Mapping[str, Any]], base: Mapping[str, Any]) -> dict[str, str]:
    """Create the device plugin's configurations for the declared GPU sharing of hosts."""
    wanted = [Sharing(), *(read(declaration) for declaration in declarations)]
    made = {sharing.name: _with_flags(base, configuration(sharing)) for sharing in wanted}
    return {name: json.dumps(made[name], indent=2, sort_keys=True) + "\n" for name in sorted(made)}


def _with_flags(base: Mapping[str, Any], special: Mapping[str, Any]) -> dict[str, Any]:
    flags = {**(base.get("flags") or {}), **special["flags"]}
    return {**base, **special, "flags": flags}


def device_plugin_pods(pods: Sequence[Mapping[str, Any]], namespaces: Sequence[str]) -> list[dict[str, str]]:
    """Select the pods of the device plugin."""
    return [
        {"namespace": pod["metadata"]["namespace"], "name": objects.name(pod), "daemonset": daemonset}
        for pod, daemonset in managed(pods, namespaces)
    ]


def device_plugin_rollouts(nodes: Iterable[Mapping[str, Any]], namespace: str) -> list[dict[str, Any]]:
    """List the rollouts that must finish before the GPUs of nodes are offered."""
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
                "daemonsets": _daemonsets_of(way),
                "nodes": list(amounts),
                "allocatable": amounts,
                # The role acceptance reports unhealthy GPUs, together with the healthy ones.
                "tolerate_unhealthy": True,
            },
        }
        for way, amounts in sorted(ways.items())
    ]


def _daemonsets_of(way: str) -> list[str]:
    """Return the names of the DaemonSets as in the role's template."""
    names = ["nvidia-device-plugin", "gpu-feature-discovery"]
    names += ["nvidia-mps-control-daemon"] if way.startswith("mps-") else []
    return [name if way == "exclusive" else f"{name}-{way}" for name in names]


@filter_errors()
def gpu_sharing(declaration: Mapping[str, Any], gpus: int, parts: Sequence[Sequence[str]] = ()) -> dict[str, Any]:
    """Determine the resources that a host offers with a given kind of GPU sharing."""
    sharing = rules.read(declaration)
    return {
        "mode": sharing.mode,
        "replicas": sharing.replicas,
        "strategy": sharing.strategy,
        "name": sharing.name,
        "layout": sharing.layout,
        "amounts": rules.offers(sharing, int(gpus), parts),
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "dcgm_exporter_plan": dcgm_exporter_plan,
            "device_plugin_config": device_plugin_config,
            "device_plugin_pods": device_plugin_pods,
            "device_plugin_rollouts": device_plugin_rollouts,
            "gpu_sharing": gpu_sharing,
        }
