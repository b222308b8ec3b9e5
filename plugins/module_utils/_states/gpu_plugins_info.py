# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the device plugins and DRA drivers that offer the cluster's GPUs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .._cluster import device_plugins, dra, objects
from .._cluster.api import Api
from .._cluster.operator import POLICIES

# Annotation written by the role nvidia_driver_installer.
_INSTALLER = "gpulab.io/driver-installer"


def ensure(module: Any) -> dict[str, Any]:
    api = Api(module.params["kubeconfig"])
    daemonsets = api.items("/apis/apps/v1/daemonsets")
    found = device_plugins.plugins(daemonsets, api.items("/api/v1/pods"))
    policies = _all(api, POLICIES)
    gpus = dra.gpus_by_node(_all(api, dra.SLICES))
    classes = dra.device_classes(_all(api, dra.CLASSES))
    with_plugin = {node for plugin in found for node in plugin.nodes}
    twice = dra.nodes_offered_twice(gpus, api.items("/api/v1/nodes"), with_plugin) if gpus else []
    return {
        "dra": {"gpus": gpus, "classes": classes},
        "problems": [dra.twice_problem(twice, classes).fields()] if twice else [],
        "plugins": [asdict(plugin) for plugin in found],
        "shared": device_plugins.shared(found),
        "policies": sorted(policy["metadata"]["name"] for policy in policies),
        "driver_policies": {objects.name(policy): _of_the_driver(policy) for policy in policies},
        "installers": [
            objects.name(each) for each in daemonsets if _INSTALLER in (each["metadata"].get("annotations") or {})
        ],
    }


def _all(api: Api, path: str) -> list[dict[str, Any]]:
    """Return the objects of a kind that the cluster may not have."""
    return (api.find(path) or {}).get("items") or []


def _of_the_driver(policy: objects.Object) -> dict[str, Any]:
    spec = policy.get("spec") or {}
    return {part: spec[part] for part in ("driver", "daemonsets", "hostPaths") if spec.get(part)}


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {"kubeconfig": {"type": "path", "required": True}},
    "supports_check_mode": True,
}
