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

from .._json import as_mapping
from . import init_decision as state
from .damage import COMPONENTS
from .lease import NAME
from .probe import Api, ApiSilentError

NODES = "/api/v1/nodes"
# What a user would create: the beginning of its keys in etcd, and the path of its list.
OBJECTS = {
    "minions": NODES,
    **{name: f"/api/v1/{name}" for name in ("configmaps", "namespaces", "pods", "secrets", "serviceaccounts")},
    **{name: f"/api/v1/{name}" for name in ("persistentvolumeclaims", "persistentvolumes")},
    "controllers": "/api/v1/replicationcontrollers",
    "services/specs": "/api/v1/services",
    **{name: f"/apis/apps/v1/{name}" for name in ("daemonsets", "deployments", "replicasets", "statefulsets")},
    **{name: f"/apis/batch/v1/{name}" for name in ("cronjobs", "jobs")},
    **{
        name: f"/apis/rbac.authorization.k8s.io/v1/{name}"
        for name in ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
    },
    "ingress": "/apis/networking.k8s.io/v1/ingresses",
    "networkpolicies": "/apis/networking.k8s.io/v1/networkpolicies",
    "leases": "/apis/coordination.k8s.io/v1/leases",
    "resourceclaims": "/apis/resource.k8s.io/v1/resourceclaims",
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "apiextensions.k8s.io/customresourcedefinitions": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
# Every cluster that others can join has this object (kubeadm's phase bootstrap-token); the addons are created later.
_PUBLISHED = "configmaps/kube-public/cluster-info"
_ADDON = re.compile(
    r"daemonsets/kube-system/kube-proxy|deployments/kube-system/coredns|replicasets/kube-system/coredns-[a-z0-9]+"
)
# A run takes it before it completes an interrupted init.
_LEASE = f"leases/kube-system/{NAME}"
_NODE = re.compile(
    rf"((minions|csinodes|leases/kube-node-lease)/|pods/kube-system/({'|'.join(COMPONENTS)})-)(?P<node>[^/]+)"
)
_NAMESPACES = "(default|kube-node-lease|kube-public|kube-system)"
_LEVELS = "catch-all|exempt|global-default|leader-election|node-high|system|workload-(high|low|leader-election)"
_SCHEMAS = (
    "catch-all|endpoint-controller|exempt|global-default|kube-controller-manager|kube-scheduler|probes|"
    "(kube-system-)?service-accounts|system-(leader-election|node-high|nodes)|workload-leader-election"
)
# The keys of a cluster after kubeadm init, without /registry/.
_OWN = re.compile(
    "|".join(
        (
            r"apiregistration\.k8s\.io/apiservices/v[0-9a-z]+\.(apps|autoscaling|batch|policy|[a-z.]+\.k8s\.io)?",
            r"certificatesigningrequests/csr-[a-z0-9]+",
            r"clusterrolebindings/(cluster-admin|(kubeadm|system):[^/]+)",
            r"clusterroles/(admin|cluster-admin|edit|view|(kubeadm|system):[^/]+)",
            r"clustertrustbundles/kubernetes\.io:[^/]+",
            rf"configmaps/({_NAMESPACES}/kube-root-ca\.crt|kube-public/cluster-info)",
            r"configmaps/kube-system/(coredns|kube-proxy|kubeadm-config|kubelet-config|"
            r"extension-apiserver-authentication|kube-apiserver-legacy-service-account-token-tracking)",
            r"controllerrevisions/kube-system/kube-proxy-[a-z0-9]+",
            r"endpointslices/(default/kubernetes|kube-system/kube-dns-[a-z0-9]+)",
            r"events/(default|kube-system)/[^/]+",
            rf"flowschemas/({_SCHEMAS})",
            r"(ipaddresses|masterleases|peerserverleases|ranges)/[^/]+",
            rf"leases/kube-system/(apiserver-[a-z0-9]+|kube-controller-manager|kube-scheduler|{NAME})",
            rf"namespaces/{_NAMESPACES}",
            r"pods/kube-system/(coredns-[a-z0-9]+|kube-proxy)-[a-z0-9]{5}",
            r"priorityclasses/system-(cluster|node)-critical",
            rf"prioritylevelconfigurations/({_LEVELS})",
            r"(role|rolebinding)s/kube-(public|system)/"
            r"(extension-apiserver-authentication-reader|kube-proxy|(kubeadm|system):[^/]+)",
            r"secrets/kube-system/(bootstrap-token-[a-z0-9]{6}|kubeadm-certs)",
            # Kubernetes creates one for each of its controllers.
            rf"serviceaccounts/({_NAMESPACES}/default|kube-system/[^/]+)",
            r"servicecidrs/kubernetes",
            r"services/(endpoints|specs)/(default/kubernetes|kube-system/kube-dns)",
            _ADDON.pattern,
        )
    )
)
_PREFIX, _ANY_PREFIX = b"/registry/", b"/namespaces/kube-system"
# In etcd's database and log, the tag of its field and its length as a varint precede a key.
_HEAD = re.compile(rb"[\n\x1a](?:([\x80-\xff])([\x01-\x07])|([\x01-\x7f]))\Z")
_TEXT = re.compile(rb"[ -~\x80-\xff]+")
# etcd removes its oldest logs, so others than the first one don't have all objects.
_FIRST_LOG = f"{'0' * 16}-{'0' * 16}.wal"


def etcd_files(directory: Path) -> list[Path]:
    """Return the database, if it exists, and the logs of the etcd in a data directory."""
    member = directory / "member"
    return [path for path in (member / "snap/db", *sorted(member.glob("wal/*.wal"))) if path.is_file()]


def search_etcd(directory: Path) -> str:
    """Return what etcd's data contain, as in ``Evidence.etcd``; ``absent`` without the data of an API server."""
    files = etcd_files(directory)
    try:
        whole = [path for path in files if _has_data(path)]
        if files and not {"db", _FIRST_LOG} & {path.name for path in whole}:
            return state.UNREADABLE
        keys: set[str] = set()
        other_prefix = False
        for path in whole:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                for key in _keys(data):
                    keys.add(key)
                    if _shows_use(key):
                        return state.ALIVE
                other_prefix = other_prefix or data.find(_ANY_PREFIX) >= 0
    except (OSError, ValueError):
        return state.UNREADABLE
    if not keys:
        return state.UNREADABLE if other_prefix else state.ABSENT
    if _several_nodes(keys):
        return state.ALIVE
    if _PUBLISHED in keys:
        return state.ALIVE if _LEASE in keys else state.UNUSED
    return state.ALIVE if any(_ADDON.fullmatch(key) for key in keys) else state.BARREN


def is_used(api: Api) -> bool:
    """Return whether the cluster has a second node, or an object that kubeadm did not make; also if it is unknown."""
    try:
        keys = {"/".join((prefix, *_place(item))) for prefix, path in OBJECTS.items() for item in listed(api, path)}
    except ApiSilentError:
        return True
    return _several_nodes(keys) or any(map(_shows_use, keys))


def _shows_use(key: str) -> bool:
    """Return whether the object of a key, without its prefix, was created by neither Kubernetes nor kubeadm."""
    return not (_OWN.fullmatch(key) or _NODE.fullmatch(key))


def _several_nodes(keys: set[str]) -> bool:
    """Return whether keys belong to more than one node."""
    return len({found["node"] for found in map(_NODE.fullmatch, keys) if found}) > 1


def listed(api: Api, path: str, **query: str) -> list[Any]:
    """Return the objects of a list. Raise ApiSilentError for anything else, which does not show that there are none."""
    answer = api.get(path, **query)
    if answer.status != 200 or not isinstance(answer.body, dict):
        raise ApiSilentError(f"{api.server} gives no list at {path}")
    return answer.items()


def _place(item: Any) -> list[str]:
    found = as_mapping(as_mapping(item).get("metadata"))
    return [str(found[name]) for name in ("namespace", "name") if found.get(name)]


def _has_data(path: Path) -> bool:
    """Return whether a file has more than the zeros that a power failure may leave."""
    with path.open("rb") as file:
        return bool(file.read(4096).strip(b"\0"))


def _keys(data: mmap.mmap) -> Iterator[str]:
    """Yield the keys of Kubernetes' objects, without their prefix."""
    place = data.find(_PREFIX)
    while place >= 0:
        # Other texts, such as the name of an image, may contain the prefix, too.
        head = _HEAD.search(data[max(place - 3, 0) : place])
        if head:
            size = head[2][0] << 7 | head[1][0] & 0x7F if head[1] else head[3][0]
            text = data[place : place + size]
            if size > len(_PREFIX) and _TEXT.fullmatch(text):
                yield text[len(_PREFIX) :].decode("utf-8", "replace")
        place = data.find(_PREFIX, place + 1)
