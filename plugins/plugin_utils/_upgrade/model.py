# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan of an upgrade is made from: readings of the hosts and of the cluster, and settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...module_utils._json import as_mapping, as_mappings, as_text, as_texts
from .._nodes.document import read_document
from .._nodes.kubernetes import recorded_version, release, release_of_package
from .._nodes.plan import host_of

API_SERVER, ETCD = "kube-apiserver", "etcd"
Facts = Mapping[str, Any]
_POD = ("namespace", "name", "uid", "empty_dirs")


@dataclass(frozen=True)
class Host:
    """A host of the run. ``kubernetes`` and ``etcd`` are what its control plane runs, empty on a worker; ``users`` are
    the pods and processes that use its GPUs, ``pods`` those that a drain evicts."""

    name: str
    node: str
    control_plane: bool
    member: bool
    kubelet: str
    containerd: str = ""
    kubernetes: str = ""
    etcd: str = ""
    flags: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    free: int = 0
    etcd_data: int = 0
    interrupted: str = ""
    settings: Facts = field(default_factory=dict)
    gpu_pods: tuple[Facts, ...] = ()
    processes: tuple[Facts, ...] = ()
    pending: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterState:
    """What the API and etcd know. ``version`` is that of the configuration, which the upgrade changes."""

    version: str
    error: str = ""
    nodes: tuple[Facts, ...] = ()
    pods: tuple[Facts, ...] = ()
    groups: tuple[str, ...] = ()
    old_objects: tuple[str, ...] = ()
    members: tuple[Facts, ...] = ()
    etcd_error: str = ""
    coredns: str = ""
    kube_proxy: str = ""
    proxy_mode: str = ""
    etcd_tag: str = ""
    external_etcd: bool = False

    def node(self, name: str) -> Facts:
        return next((each for each in self.nodes if each.get("name") == name), {})


@dataclass(frozen=True)
class Settings:
    """``table`` are the known versions; ``serial`` and ``policy`` those of the workers."""

    wanted: str
    table: Mapping[str, Facts]
    policy: str
    serial: str
    repository: str = "registry.k8s.io"
    wait: int = 0


def hosts_of(names: Sequence[str], hostvars: Mapping[str, Any], control_planes: Sequence[str]) -> list[Host]:
    """Return the hosts of a run, control planes first, from the facts that preflight and the upgrade set."""
    order = [
        *(name for name in control_planes if name in names),
        *(name for name in names if name not in control_planes),
    ]
    return [_host(name, hostvars[name], control_planes) for name in order]


def _host(name: str, variables: Facts, control_planes: Sequence[str]) -> Host:
    found, preflight = host_of(name, variables, control_planes), as_mapping(variables.get("preflight_host"))
    installed = as_mapping(preflight.get("installed"))
    read = as_mapping(as_mapping(variables.get("kubernetes_upgrade_found")).get("host"))
    components = as_mapping(read.get("components"))
    pods = as_mappings(as_mapping(variables.get("kubernetes_upgrade_pods")).get("pods"))
    users = as_mappings(as_mapping(variables.get("kubernetes_upgrade_users")).get("users"))
    return Host(
        name=name,
        node=as_text(preflight.get("node_name")),
        control_plane=found.control_plane,
        member=bool(found.member),
        kubelet=release_of_package(installed.get("kubelet")),
        containerd=release_of_package(installed.get("containerd.io")),
        kubernetes=release(components.get(API_SERVER)),
        etcd=as_text(components.get(ETCD)),
        flags=tuple(as_texts(read.get("flags"))),
        missing=tuple(as_texts(read.get("missing"))),
        free=int(read.get("free") or 0),
        etcd_data=int(read.get("etcd_data") or 0),
        interrupted=as_text(read.get("interrupted")),
        settings=as_mapping(read.get("settings")),
        gpu_pods=tuple(_fields(each, *_POD) for each in pods),
        processes=tuple(_fields(each, "name", "pid", "pod") for each in blocking(users, pods)),
        pending=found.pending,
    )


def blocking(users: Sequence[Facts], pods: Sequence[Facts]) -> list[Facts]:
    """Return the processes that a drain would end: those of pods to which the kubelet gave no GPU.

    A process of the host itself survives the restart of a kubelet.
    """
    known = {f"{pod.get('namespace')}/{pod.get('name')}" for pod in pods} | {as_text(pod.get("uid")) for pod in pods}
    return [each for each in users if as_text(each.get("pod")) and each["pod"] not in known]


def _fields(found: Facts, *names: str) -> dict[str, Any]:
    """Return these fields of a reading, which is not trusted: texts, numbers, and lists of texts."""
    values = {name: found[name] for name in names if name in found}
    return {
        **{name: "" for name in names if name not in values},
        **{name: as_texts(value) if name == "empty_dirs" else _plain(value) for name, value in values.items()},
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int)) else ""


def cluster_of(hostvars: Mapping[str, Any], api_host: str) -> ClusterState:
    """Return the cluster as its control plane ``api_host`` has read it."""
    variables = as_mapping(hostvars[api_host])
    control_plane = as_mapping(as_mapping(variables.get("preflight_host")).get("control_plane"))
    found = as_mapping(variables.get("kubernetes_upgrade_found"))
    read, texts = as_mapping(found.get("cluster")), as_mapping(control_plane.get("texts"))
    configuration = read_document(read.get("configuration") or texts.get("ClusterConfiguration"))
    etcd = as_mapping(configuration.get("etcd"))
    return ClusterState(
        version=release(configuration.get("kubernetesVersion")) or recorded_version(control_plane),
        error=as_text(read.get("error")) if read else "it was not read",
        nodes=tuple(_fields(each, "name", "kubelet", "ready", "upgrading") for each in as_mappings(read.get("nodes"))),
        pods=tuple(_fields(each, *_POD, "node", "controller") for each in as_mappings(read.get("pods"))),
        groups=tuple(as_texts(read.get("groups"))),
        old_objects=tuple(as_texts(read.get("old_objects"))),
        members=tuple(_fields(each, "id", "name", "health") for each in as_mappings(found.get("etcd"))),
        etcd_error=as_text(found.get("etcd_error")),
        coredns=as_text(read.get("coredns")),
        kube_proxy=as_text(read.get("kube-proxy")),
        proxy_mode=as_text(read_document(read.get("proxy") or texts.get("KubeProxyConfiguration")).get("mode")),
        etcd_tag=as_text(as_mapping(etcd.get("local")).get("imageTag")),
        external_etcd=bool(etcd.get("external")),
    )
