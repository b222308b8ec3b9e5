# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what an upgrade of Kubernetes changes on this host and in its cluster. Nothing is changed."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .._cluster.drain import owner, to_evict
from .._cluster.node_list import CONTROL_PLANE, read_nodes
from .._etcd.client import facts
from .._files import read_text, text_or_nothing, under
from .._host.facts import disks
from .._json import as_mapping, as_mappings, as_text
from . import undo
from .components import component_tags
from .differences import manifest_of
from .etcd_gate import EtcdGate
from .init_evidence import etcd_data, servers
from .manifests import ETCD, tag
from .probe import Api, ApiRefusedError, ApiSilentError

# Where kubeadm copies manifests and the data of etcd.
COPIES = "/etc/kubernetes/tmp"
_FLAG_FILES = ("/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet")
_FLAG = re.compile(r"(?<![\w-])--([a-zA-Z][\w-]*)")
_GATES = re.compile(r"--feature-gates[= ][\"']?([\w=,]+)")
_PAGE = "100"
# The API that Kubernetes 1.37 no longer has: all its objects must be deleted before.
_OLD_OBJECTS = "/apis/scheduling.k8s.io/v1alpha2"


def read_host(root: str) -> dict[str, Any]:
    """Return the facts of this host.

    ``components`` by image tag, ``flags`` and feature ``gates`` of the kubelet, ``free`` space and the size of etcd's
    data in MiB, and a change of the control plane that was ``interrupted``, with its ``settings``.
    """
    found = undo.Undo(root)
    data, arguments = etcd_data(root), "\n".join(text_or_nothing(root, path) for path in _FLAG_FILES)
    return {
        "components": component_tags(root),
        "flags": sorted({*_FLAG.findall(arguments)}),
        "gates": sorted(gate.partition("=")[0] for text in _GATES.findall(arguments) for gate in text.split(",")),
        "free": disks(root, [COPIES])[0]["free_mib"],
        "etcd_data": _size(under(root, data)) // 2**20 + 1 if data else 0,
        "interrupted": found.kind if found.state != undo.NONE else "",
        "settings": dict(found.settings) if found.kind == undo.UPGRADE else {},
    }


def read_etcd(module: Any, root: str) -> list[dict[str, Any]]:
    """Return etcd's members, none without a member on this host, or without etcdctl. Raise DomainError."""
    text = read_text(under(root, manifest_of(ETCD)))
    if text is None or not shutil.which(module.params["etcdctl"]):
        return []
    return [facts(each) for each in EtcdGate(module, root).members(text)]


def read_cluster(module: Any, root: str) -> dict[str, Any]:
    """Return what the API knows, or the ``error`` with which all servers answer."""
    errors: dict[str, str] = {}
    for api in servers(module, root, errors):
        try:
            return {"error": "", **_questions(api)}
        except (ApiSilentError, ApiRefusedError) as error:
            errors[api.server] = str(error)
    return {"error": "; ".join(errors.values()) or "there is no kubeconfig of an administrator on this host"}


def _size(directory: Path) -> int:
    """Return the size of the files in a directory in bytes, without those that are removed meanwhile."""
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.lstat().st_size if path.is_file() else 0
    return total


def _questions(api: Api) -> dict[str, Any]:
    apps = "/apis/apps/v1/namespaces/kube-system"
    groups = as_mapping(api.get("/apis").body).get("groups")
    nodes = [*_list(api, "/api/v1/nodes")]
    pods = [_plain(each) for each in _list(api, "/api/v1/pods")]
    return {
        "nodes": read_nodes(nodes),
        "accepts_check": any(map(_accepts_check, nodes)),
        "pods": [_pod(each) for each in to_evict(pods) if each["spec"].get("nodeName")],
        "groups": sorted(as_text(each.get("name")) for each in as_mappings(groups)),
        "old_objects": list(_old_objects(api)),
        "coredns": _version(api.get(f"{apps}/deployments/coredns").body),
        "kube_proxy": _version(api.get(f"{apps}/daemonsets/kube-proxy").body),
    }


def _list(api: Api, path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, which is read in parts."""
    token = ""
    while True:
        answer = api.get(path, limit=_PAGE, **({"continue": token} if token else {}))
        body = as_mapping(answer.body)
        if answer.status == 200 and not isinstance(body.get("items"), list):
            raise ApiRefusedError(f"{api.server} answers {path} with something that is not a list, or is too large")
        yield from as_mappings(answer.items())
        token = as_text(as_mapping(body.get("metadata")).get("continue"))
        if not token:
            return


def _accepts_check(node: Mapping[str, Any]) -> bool:
    """Return whether kubeadm's check CreateJob can run on a node: it tolerates the control plane's taint only."""
    spec = as_mapping(node.get("spec"))
    taints = {(as_text(each.get("key")), as_text(each.get("effect"))) for each in as_mappings(spec.get("taints"))}
    refused = [each for each in taints - {(CONTROL_PLANE, "NoSchedule")} if each[1] in ("NoSchedule", "NoExecute")]
    return not refused and spec.get("unschedulable") is not True


def _old_objects(api: Api) -> Iterator[str]:
    for resource in as_mappings(as_mapping(api.get(_OLD_OBJECTS).body).get("resources")):
        name = as_text(resource.get("name"))
        if name and "/" not in name:
            for each in _list(api, f"{_OLD_OBJECTS}/{name}"):
                meta = as_mapping(each.get("metadata"))
                yield "/".join(filter(None, (name, as_text(meta.get("namespace")), as_text(meta.get("name")))))


def _plain(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is read of a pod, each part with its type."""
    meta, spec = as_mapping(pod.get("metadata")), as_mapping(pod.get("spec"))
    return {
        "metadata": {
            **{name: as_text(meta.get(name)) for name in ("namespace", "name", "uid")},
            "annotations": as_mapping(meta.get("annotations")),
            "ownerReferences": as_mappings(meta.get("ownerReferences")),
        },
        "spec": {"nodeName": as_text(spec.get("nodeName")), "volumes": as_mappings(spec.get("volumes"))},
        "status": {"phase": as_text(as_mapping(pod.get("status")).get("phase"))},
    }


def _pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    meta, spec, found = pod["metadata"], pod["spec"], owner(pod)
    return {
        **{name: meta[name] for name in ("namespace", "name", "uid")},
        "node": spec["nodeName"],
        "controller": f"{as_text(found.get('kind'))} {as_text(found.get('name'))}".strip(),
        "empty_dirs": [as_text(each.get("name")) for each in spec["volumes"] if "emptyDir" in each],
    }


def _version(body: Any) -> str:
    """Return the tag of the first container's image of a Deployment or DaemonSet, empty if there is none."""
    template = as_mapping(as_mapping(as_mapping(body).get("spec")).get("template"))
    containers = as_mappings(as_mapping(template.get("spec")).get("containers"))
    return tag(as_text(containers[0].get("image"))) if containers else ""
