# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out from etcd's files or the API whether anything but kubeadm has used a cluster. Nothing is changed."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import init_decision as state
from .probe import Api, ApiSilentError

PREFIX = "/registry"
NODES = "/api/v1/nodes"
# Objects that show use, by their resource: the path of their list. Without a workload there are none but kubeadm's own.
OBJECTS = {
    "namespaces": "/api/v1/namespaces",
    "persistentvolumeclaims": "/api/v1/persistentvolumeclaims",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "pods": "/api/v1/pods",
    "replicationcontrollers": "/api/v1/replicationcontrollers",
    "daemonsets": "/apis/apps/v1/daemonsets",
    "deployments": "/apis/apps/v1/deployments",
    "replicasets": "/apis/apps/v1/replicasets",
    "statefulsets": "/apis/apps/v1/statefulsets",
    "cronjobs": "/apis/batch/v1/cronjobs",
    "jobs": "/apis/batch/v1/jobs",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
_SYSTEM = "kube-system"
_NAMESPACES = ("default", _SYSTEM, "kube-public", "kube-node-lease")
_ADDONS = (("daemonsets", "kube-proxy"), ("deployments", "coredns"))

# Keys as etcd stores them, unencoded, in its database and log. Every cluster that others can join has this ConfigMap
# (kubeadm's phase bootstrap-token); the addons are written later.
_CLUSTER_INFO = b"/configmaps/kube-public/cluster-info"
# The key's length, which precedes it, is the character -.
_OWN_PREFIX = re.compile(rf"(?<![\w./]){PREFIX}\Z".encode(), re.ASCII)
_KEY = re.compile(rb"[a-z0-9./-]+")
_LONGEST_KEY = 600


def search_etcd(files: list[Path], prefix: str = PREFIX) -> str:
    """Return what the etcd files contain, as in ``Evidence.etcd``; ``absent`` without the data of an API server.

    ``prefix`` is the API server's --etcd-prefix. kubeadm's own is the only one for which a published cluster can count
    as unused.
    """
    written = published = False
    nodes: set[str] = set()
    for path in files:
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                for place in _places(data, _CLUSTER_INFO):
                    published = True
                    if not _OWN_PREFIX.search(data[max(place - len(PREFIX) - 1, 0) : place]):
                        return state.ALIVE
                for key in _keys(data, f"{prefix}/".encode()):
                    written = True
                    if _shows_use(key, nodes):
                        return state.ALIVE
        except (OSError, ValueError):
            return state.UNREADABLE
    if published and prefix != PREFIX:
        return state.ALIVE
    return state.UNUSED if published else state.BARREN if written else state.ABSENT


def is_used(api: Api) -> bool:
    """Return whether the cluster has a second node, or an object that kubeadm did not make; also if it is unknown."""
    try:
        if len(listed(api, NODES)) > 1:
            return True
        return any(
            _is_use(resource, str(one.get("namespace") or ""), str(one.get("name") or ""))
            for resource, path in OBJECTS.items()
            for one in _metadata(api, path)
        )
    except ApiSilentError:
        return True


def listed(api: Api, path: str, **query: str) -> list[Any]:
    """Return the objects of a list. Raise ApiSilentError for anything else, which does not show that there are none."""
    answer = api.get(path, **query)
    if answer.status != 200 or not isinstance(answer.body, dict):
        raise ApiSilentError(f"{api.server} gives no list at {path}")
    return answer.items()


def _metadata(api: Api, path: str) -> Iterator[dict[str, Any]]:
    for item in listed(api, path):
        found = item.get("metadata") if isinstance(item, dict) else None
        yield found if isinstance(found, dict) else {}


def _is_use(resource: str, namespace: str, name: str) -> bool:
    if resource == "namespaces":
        return name not in _NAMESPACES
    if namespace != _SYSTEM:
        return resource in OBJECTS
    if resource == "replicasets":
        return not name.startswith("coredns-")
    return resource in OBJECTS and resource != "pods" and (resource, name) not in _ADDONS


def _shows_use(key: str, nodes: set[str]) -> bool:
    """Return whether a key without the prefix shows use; ``nodes`` collects the names of nodes."""
    parts = key.split("/")
    if "." in parts[0]:
        # The group of a resource that is not a built-in one.
        parts = parts[1:] or [""]
    resource, *place = parts
    if resource == "minions":
        nodes.add("/".join(place))
    return len(nodes) > 1 or _is_use(resource, place[0] if len(place) > 1 else "", place[-1] if place else "")


def _keys(data: mmap.mmap, prefix: bytes) -> Iterator[str]:
    """Yield the keys with a prefix, without it. Their length precedes them, as a varint of protobuf."""
    for place in _places(data, prefix):
        high, low = (data[place - 1], data[place - 2]) if place > 1 else (0, 0)
        # What follows a key may look like a part of it.
        size = high << 7 | low & 0x7F if low & 0x80 and 0 < high < 0x80 and high << 7 < _LONGEST_KEY else high
        found = _KEY.match(data[place + len(prefix) : place + _LONGEST_KEY])
        key = found[0].decode() if found else ""
        yield key[: size - len(prefix)] if size > len(prefix) else key


def _places(data: mmap.mmap, text: bytes) -> Iterator[int]:
    place = data.find(text)
    while place >= 0:
        yield place
        place = data.find(text, place + 1)
