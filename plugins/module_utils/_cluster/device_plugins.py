# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the device plugins that offer a cluster's GPUs, from DaemonSets and pods. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from . import nodes, objects
from .objects import Object

# A program that registers a resource with the kubelet has a socket in this directory.
_SOCKETS = "/device-plugins"
_VENDOR = "nvidia"
# Labels of this collection's device plugin and the GPU Operator's.
APP = "nvidia-device-plugin"
_APPS = (APP, "nvidia-device-plugin-daemonset")


@dataclass
class Plugin:
    """A DaemonSet or a single pod; ``nodes`` have a pod of it that has not ended, possibly a terminating one."""

    namespace: str
    name: str
    kind: str = "DaemonSet"
    policy: str = ""
    nodes: list[str] = field(default_factory=list)


def plugins(daemonsets: Iterable[Object], pods: Iterable[Object]) -> list[Plugin]:
    """Return NVIDIA's device plugins, sorted by name; ``policy`` is the ClusterPolicy that one belongs to."""
    found = {}
    for daemonset in daemonsets:
        if _serves(daemonset["spec"]["template"]["spec"]):
            plugin = Plugin(daemonset["metadata"].get("namespace", ""), objects.name(daemonset))
            plugin.policy = next((owner for kind, owner in _owners(daemonset) if kind == "ClusterPolicy"), "")
            found[plugin.namespace, plugin.name] = plugin
    for pod in pods:
        if _serves(pod["spec"]) and objects.node_of(pod) and objects.phase(pod) not in ("Succeeded", "Failed"):
            kind, name = next(_owners(pod), ("Pod", objects.name(pod)))
            where = pod["metadata"].get("namespace", "")
            plugin = found.setdefault((where, name), Plugin(where, name, kind))
            plugin.nodes = sorted({*plugin.nodes, objects.node_of(pod)})
    return [found[key] for key in sorted(found)]


def managed(pods: Iterable[Object], namespaces: Collection[str]) -> Iterator[tuple[Object, str]]:
    """Yield the pods of known device plugins, each with the name of its DaemonSet.

    Everyone who can create pods can set the label. Therefore the pod must be in one of ``namespaces``, and its
    controller must be the DaemonSet of that label, whose name may have a suffix.
    """
    for pod in pods:
        meta = pod["metadata"]
        app = nodes.labels_of(pod).get("app", "")
        for owner in meta.get("ownerReferences") or []:
            known = owner.get("controller") and owner.get("kind") == "DaemonSet" and app in _APPS
            if known and meta.get("namespace") in namespaces and f"{owner['name']}-".startswith(f"{app}-"):
                yield pod, owner["name"]


def shared(found: Iterable[Plugin]) -> dict[str, list[str]]:
    """Return node -> device plugins, for nodes with several; the kubelet would use the last one that registers."""
    nodes: dict[str, list[str]] = {}
    for plugin in found:
        for node in plugin.nodes:
            nodes.setdefault(node, []).append(f"{plugin.namespace}/{plugin.name}")
    return {node: names for node, names in sorted(nodes.items()) if len(names) > 1}


def _serves(spec: Object) -> bool:
    paths = [(volume.get("hostPath") or {}).get("path", "") for volume in spec.get("volumes") or []]
    words = [f"{container['name']} {container.get('image', '')}".lower() for container in spec["containers"]]
    return any(path.rstrip("/").endswith(_SOCKETS) for path in paths) and any(_VENDOR in word for word in words)


def _owners(thing: Object) -> Iterator[tuple[str, str]]:
    for owner in thing["metadata"].get("ownerReferences") or []:
        yield owner["kind"], owner["name"]
