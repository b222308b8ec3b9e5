# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the settings of an existing cluster from its API, on a control plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._cluster import dra, node_list
from .._json import as_mapping
from . import init_decision, undo
from .components import component_tags
from .init_evidence import gather, servers
from .probe import Api, ApiRefusedError, ApiSilentError
from .yaml_block import read_yaml

# ConfigMap (namespace, name) and key of each configuration. The first three are kubeadm's, the last is flannel's.
_TEXTS = {
    "ClusterConfiguration": ("kube-system", "kubeadm-config", "ClusterConfiguration"),
    "KubeletConfiguration": ("kube-system", "kubelet-config", "kubelet"),
    "KubeProxyConfiguration": ("kube-system", "kube-proxy", "config.conf"),
    "flannel": ("kube-flannel", "kube-flannel-cfg", "net-conf.json"),
}
_DAEMONSETS = "/apis/apps/v1/daemonsets"
_POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
_PLUGIN = "nvidia-device-plugin"
_OURS = "gpulab.io/configuration"


def read(module: Any, root: str, patience: float) -> dict[str, Any]:
    """Return the decision of kubeadm_init and the settings that the API returns.

    The decision is ``action``, ``reason``, ``advice`` and ``api``; ``interrupted`` says whether a change of this
    control plane was, and ``restorable`` are the damaged files that are repaired with it; ``components`` are the image
    tags of its static pods. ``patience`` is how long to
    wait for an expected API server, in seconds.
    """
    found = gather(module, root, patience)
    verdict = init_decision.decide(found)
    lists: dict[str, Any] = {"daemonsets": [], "gpu_managers": [], "nodes": []}
    settings = {"version": "", "texts": {}, **lists, "gpus_twice": {}, "removed_nodes": {}, "error": ""}
    if verdict.action == init_decision.FINISHED:
        settings |= _settings(module, root)
    decision = {"action": verdict.action, "reason": verdict.reason, "advice": verdict.advice, "api": found.api}
    return {**decision, **undo.interruption(root), "components": component_tags(root), **settings}


def configuration(module: Any, root: str) -> Mapping[str, Any]:
    """Return the cluster's ClusterConfiguration with all scalars as texts, empty if the API does not return it."""
    for api in servers(module, root, {}):
        try:
            found = [read_yaml(text) for text in _text(api, *_TEXTS["ClusterConfiguration"])]
        except (ApiSilentError, ApiRefusedError, ValueError, RecursionError):
            continue
        return found[0] if found and isinstance(found[0], dict) else {}
    return {}


def _settings(module: Any, root: str) -> dict[str, Any]:
    errors: dict[str, str] = {}
    for api in servers(module, root, errors):
        try:
            return _questions(api)
        except (ApiSilentError, ApiRefusedError) as error:
            errors[api.server] = str(error)
    return {"error": "; ".join(errors.values())}


def _questions(api: Api) -> dict[str, Any]:
    version = api.get("/version").body
    daemonsets = [as_mapping(as_mapping(item).get("metadata")) for item in api.get(_DAEMONSETS).items()]
    labels = [as_mapping(one.get("labels")) for one in daemonsets]
    ours = any(each.get("app") == _PLUGIN and _OURS in each for each in labels)
    nodes = api.get("/api/v1/nodes").items()
    managers = {"device_plugin": ours, "gpu_operator": bool(api.get(_POLICIES).items())}
    return {
        "gpus_twice": _gpus_twice(api, nodes),
        "version": str(version.get("gitVersion") or "") if isinstance(version, dict) else "",
        "texts": {name: text for name, place in _TEXTS.items() for text in _text(api, *place)},
        "daemonsets": sorted({str(one.get("name")) for one in daemonsets}),
        "gpu_managers": [name for name, there in managers.items() if there],
        "nodes": node_list.read_nodes(nodes),
        "removed_nodes": node_list.read_removed(api.get(node_list.REMOVED_PATH).body),
    }


def _gpus_twice(api: Api, listed: list[Any]) -> dict[str, Any]:
    """Return ``nodes`` whose GPUs DRA and a device plugin would both offer, and DRA's ``classes``; empty if none."""
    gpus = dra.gpus_by_node(api.get(dra.SLICES).items())
    nodes = dra.nodes_offered_twice(gpus, listed) if gpus else []
    return {"nodes": nodes, "classes": dra.device_classes(api.get(dra.CLASSES).items())} if nodes else {}


def _text(api: Api, namespace: str, name: str, key: str) -> list[str]:
    body = api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}").body
    text = as_mapping(as_mapping(body).get("data")).get(key)
    return [text] if isinstance(text, str) else []
