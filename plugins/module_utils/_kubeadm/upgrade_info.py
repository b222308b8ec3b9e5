# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what an upgrade of Kubernetes changes on this host and in its cluster. Nothing is changed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._cluster import records
from .._command import CommandNotFoundError, Runner
from .._errors import DomainError
from .._etcd.client import facts
from .._files import read_text, text_or_nothing, under
from .._host.facts import disks
from .._json import as_mapping, as_mappings, as_text
from . import undo
from .etcd_gate import EtcdGate
from .init_evidence import etcd_data, servers
from .manifests import COMPONENTS, ETCD, image
from .probe import Api, ApiRefusedError, ApiSilentError

COPIES = "/etc/kubernetes/tmp"
_FLAG_FILES = ("/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet")
_FLAG = re.compile(r"(?<![\w-])--([a-zA-Z][\w-]*)")
_PAGE = "500"
# The API that Kubernetes 1.37 no longer has: all its objects must be deleted before.
_OLD_OBJECTS = "/apis/scheduling.k8s.io/v1alpha2"
_ENDED = ("Succeeded", "Failed")
_MIRROR = "kubernetes.io/config.mirror"


def read_host(module: Any, root: str, images: Sequence[str]) -> dict[str, Any]:
    """Return the facts of this host: ``components`` by image tag, ``flags`` of the kubelet, ``missing`` images, free
    space and the size of etcd's data in bytes, kubeadm's ``copies``, and a change that was interrupted."""
    found = undo.Undo(root)
    data = etcd_data(root)
    return {
        "components": dict(_components(root)),
        "flags": sorted({name for path in _FLAG_FILES for name in _FLAG.findall(text_or_nothing(root, path))}),
        "missing": [each for each in images if not _has(module, each)],
        "free": disks(root, [COPIES])[0]["free_mib"] * 2**20,
        "etcd_data": _size(under(root, data)) if data else 0,
        "copies": [path.name for path in old_copies(root)],
        "interrupted": found.kind if found.state != undo.NONE else "",
        "settings": dict(found.settings) if found.kind == undo.UPGRADE else {},
    }


def read_etcd(module: Any, root: str) -> list[dict[str, Any]]:
    """Return etcd's members, none without a member on this host, or without etcdctl."""
    text = read_text(under(root, f"/etc/kubernetes/manifests/{ETCD}.yaml"))
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


def old_copies(root: str) -> list[Path]:
    """Return the directories with files of before an upgrade that kubeadm has left, the newest first."""
    found = [path for path in under(root, COPIES).glob("kubeadm-*") if path.is_dir() and not path.is_symlink()]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def _components(root: str) -> Iterator[tuple[str, str]]:
    for name in COMPONENTS:
        text = read_text(under(root, f"/etc/kubernetes/manifests/{name}.yaml"))
        if text is not None:
            try:
                yield name, tag(image(text, name))
            except DomainError:
                # A damaged one has no version.
                yield name, ""


def tag(reference: str) -> str:
    """Return the tag of an image, empty without one."""
    name = reference.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]


def _has(module: Any, reference: str) -> bool:
    try:
        return Runner(module, timeout=60).run(["crictl", "inspecti", "--quiet", reference]).rc == 0
    except CommandNotFoundError:
        return False


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file() and not each.is_symlink())


def _questions(api: Api) -> dict[str, Any]:
    groups = as_mapping(api.get("/apis").body).get("groups")
    deployment = api.get("/apis/apps/v1/namespaces/kube-system/deployments/coredns").body
    proxy = api.get("/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy").body
    return {
        "nodes": [_node(each) for each in _list(api, "/api/v1/nodes")],
        "pods": [_pod(each) for each in _list(api, "/api/v1/pods") if _is_movable(each)],
        "groups": sorted(as_text(each.get("name")) for each in as_mappings(groups)),
        "old_objects": list(_old_objects(api)),
        "configuration": _text(api, "kubeadm-config", "ClusterConfiguration"),
        "proxy": _text(api, "kube-proxy", "config.conf"),
        "coredns": _version(deployment),
        "kube-proxy": _version(proxy),
    }


def _text(api: Api, name: str, key: str) -> str:
    body = as_mapping(api.get(f"/api/v1/namespaces/kube-system/configmaps/{name}").body)
    return as_text(as_mapping(body.get("data")).get(key))


def _list(api: Api, path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, which is read in parts."""
    following = ""
    while True:
        answer = api.get(path, limit=_PAGE, **({"continue": following} if following else {}))
        yield from as_mappings(answer.items())
        following = as_text(as_mapping(as_mapping(answer.body).get("metadata")).get("continue"))
        if not following:
            return


def _old_objects(api: Api) -> Iterator[str]:
    for resource in as_mappings(as_mapping(api.get(_OLD_OBJECTS).body).get("resources")):
        name = as_text(resource.get("name"))
        if name and "/" not in name:
            for each in _list(api, f"{_OLD_OBJECTS}/{name}"):
                meta = as_mapping(each.get("metadata"))
                yield "/".join(filter(None, (name, as_text(meta.get("namespace")), as_text(meta.get("name")))))


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    status = as_mapping(node.get("status"))
    ready = [each.get("status") for each in as_mappings(status.get("conditions")) if each.get("type") == "Ready"]
    return {
        "name": as_text(as_mapping(node.get("metadata")).get("name")),
        "kubelet": as_text(as_mapping(status.get("nodeInfo")).get("kubeletVersion")),
        "ready": ready == ["True"],
        "cordoned": as_mapping(node.get("spec")).get("unschedulable") is True,
        "upgrading": records.key(records.KUBERNETES_UPGRADE)
        in as_mapping(as_mapping(node.get("metadata")).get("annotations")),
    }


def _is_movable(pod: Mapping[str, Any]) -> bool:
    """Return whether a drain evicts the pod."""
    meta = as_mapping(pod.get("metadata"))
    phase = as_mapping(pod.get("status")).get("phase")
    return (
        phase not in _ENDED
        and bool(as_mapping(pod.get("spec")).get("nodeName"))
        and _MIRROR not in as_mapping(meta.get("annotations"))
        and _controller(meta).get("kind") != "DaemonSet"
    )


def _pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    meta, spec = as_mapping(pod.get("metadata")), as_mapping(pod.get("spec"))
    owner = _controller(meta)
    volumes = [as_text(each.get("name")) for each in as_mappings(spec.get("volumes")) if "emptyDir" in each]
    return {
        **{name: as_text(meta.get(name)) for name in ("namespace", "name", "uid")},
        "node": as_text(spec.get("nodeName")),
        "controller": f"{as_text(owner.get('kind'))} {as_text(owner.get('name'))}".strip(),
        "empty_dirs": volumes,
    }


def _controller(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    owners = as_mappings(meta.get("ownerReferences"))
    return next((each for each in owners if each.get("controller") is True), {})


def _version(body: Any) -> str:
    """Return the tag of the first container's image of a Deployment or DaemonSet, empty if there is none."""
    template = as_mapping(as_mapping(as_mapping(body).get("spec")).get("template"))
    containers = as_mappings(as_mapping(template.get("spec")).get("containers"))
    return tag(as_text(containers[0].get("image"))) if containers else ""
