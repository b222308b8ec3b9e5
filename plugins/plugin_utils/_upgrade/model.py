# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan of an upgrade is made from: readings of the hosts and of the cluster, and settings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...module_utils._json import as_mapping, as_mappings, as_text, as_texts
from ...module_utils._kubeadm.manifests import API_SERVER, ETCD
from .._nodes.document import read_document
from .._nodes.kubernetes import recorded_version, release, release_of_package
from .._nodes.plan import host_of

Facts = Mapping[str, Any]
OTHER_PACKAGES = ("cri-tools", "kubernetes-cni")


@dataclass(frozen=True)
class Host:
    """A host of the run.

    ``kubernetes`` and ``etcd`` are what its control plane runs, empty on a worker. ``kubelet`` and ``containerd`` are
    its packages, ``others`` those with other versions. ``flags`` and feature ``gates`` are those of its kubelet,
    ``missing`` are images that it lacks. ``free`` and ``etcd_data`` are in MiB. ``interrupted`` is the kind of
    a change of its control plane that was interrupted, and ``settings`` are those of an upgrade. ``lost`` are settings
    that only its manifests have. ``gpu_pods`` and ``processes`` use its GPUs; the latter belong to other pods that a
    drain evicts. ``pending`` is what site.yml would change, by role.
    """

    name: str
    node: str
    control_plane: bool
    member: bool
    kubelet: str
    containerd: str = ""
    others: Mapping[str, str] = field(default_factory=dict)
    kubernetes: str = ""
    etcd: str = ""
    flags: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    free: int = 0
    etcd_data: int = 0
    interrupted: str = ""
    settings: Facts = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    gpu_pods: tuple[Facts, ...] = ()
    processes: tuple[Facts, ...] = ()
    pending: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterState:
    """What the API and etcd know. ``version`` is that of the ``configuration``, which the upgrade changes; ``pods`` are
    those that a drain evicts, ``kubelet_configuration`` and ``proxy`` are the documents that all nodes share."""

    version: str
    error: str = ""
    configuration: Facts = field(default_factory=dict)
    kubelet_configuration: Facts = field(default_factory=dict)
    proxy: Facts = field(default_factory=dict)
    nodes: tuple[Facts, ...] = ()
    accepts_check: bool = True
    pods: tuple[Facts, ...] = ()
    groups: tuple[str, ...] = ()
    old_objects: tuple[str, ...] = ()
    members: tuple[Facts, ...] = ()
    etcd_error: str = ""
    coredns: str = ""
    kube_proxy: str = ""

    def node(self, name: str) -> Facts:
        return next((each for each in self.nodes if each.get("name") == name), {})

    @property
    def etcd_tag(self) -> str:
        """The tag that the configuration pins etcd to, empty if kubeadm chooses it."""
        return as_text(as_mapping(as_mapping(self.configuration.get("etcd")).get("local")).get("imageTag"))

    @property
    def external_etcd(self) -> bool:
        return bool(as_mapping(self.configuration.get("etcd")).get("external"))


@dataclass(frozen=True)
class Settings:
    """``table`` are the known versions; ``serial`` and ``policy`` those of the workers; ``backup``: whether backups are
    on."""

    wanted: str
    table: Mapping[str, Facts]
    policy: str
    serial: str
    backup: bool = True


def hosts_of(
    names: Sequence[str], hostvars: Mapping[str, Any], control_planes: Sequence[str], cluster: ClusterState
) -> list[Host]:
    """Return the hosts of a run, control planes first, from the facts that preflight and the upgrade set."""
    order = [
        *(name for name in control_planes if name in names),
        *(name for name in names if name not in control_planes),
    ]
    return [_host(name, hostvars[name], control_planes, cluster) for name in order]


def _host(name: str, variables: Facts, control_planes: Sequence[str], cluster: ClusterState) -> Host:
    found, preflight = host_of(name, variables, control_planes), as_mapping(variables.get("preflight_host"))
    installed = as_mapping(preflight.get("installed"))
    read = as_mapping(_result(variables, "found").get("host"))
    components = as_mapping(read.get("components"))
    pods, users = (as_mappings(_result(variables, part).get(part)) for part in ("pods", "users"))
    return Host(
        name=name,
        node=as_text(preflight.get("node_name")),
        control_plane=found.control_plane,
        member=bool(found.member),
        kubelet=release_of_package(installed.get("kubelet")),
        containerd=release_of_package(installed.get("containerd.io")),
        others={name: release_of_package(installed[name]) for name in OTHER_PACKAGES if installed.get(name)},
        kubernetes=release(components.get(API_SERVER)),
        etcd=as_text(components.get(ETCD)),
        flags=tuple(as_texts(read.get("flags"))),
        gates=tuple(as_texts(read.get("gates"))),
        missing=tuple(as_texts(_result(variables, "images").get("pulled"))),
        free=_number(read.get("free")),
        etcd_data=_number(read.get("etcd_data")),
        interrupted=as_text(read.get("interrupted")),
        settings=as_mapping(read.get("settings")),
        lost=tuple(as_texts(_result(variables, "compared").get("lost"))),
        gpu_pods=tuple(map(_pod, pods)),
        processes=tuple(
            {**_texts(each, "name", "pod"), "pid": _number(each.get("pid"))}
            for each in evicted_processes(users, pods, cluster.pods)
        ),
        pending=found.pending,
    )


def _result(variables: Facts, name: str) -> Facts:
    return as_mapping(variables.get(f"kubernetes_upgrade_{name}"))


def evicted_processes(users: Iterable[Facts], gpu_pods: Sequence[Facts], movable: Iterable[Facts]) -> list[Facts]:
    """Return the processes with a GPU open that a drain would end, of pods to which the kubelet gave no GPU.

    A process of the host itself survives the restart of a kubelet, and those of DaemonSets, such as the device plugin,
    stay. ``movable`` are the pods that a drain evicts.
    """
    names = _names(movable) - _names(gpu_pods)
    return [each for each in users if each.get("pod") in names]


def _names(pods: Iterable[Facts]) -> set[str]:
    """Return pods as processes name them: with their namespace, or by their UID."""
    found = [(f"{pod.get('namespace')}/{pod.get('name')}", as_text(pod.get("uid"))) for pod in pods]
    return {name for names in found for name in names if name}


def _texts(found: Facts, *names: str) -> dict[str, Any]:
    return {name: as_text(found.get(name)) for name in names}


def _pod(found: Facts) -> dict[str, Any]:
    empty_dirs = as_texts(found.get("empty_dirs"))
    owner = {"controller": as_text(found["controller"])} if "controller" in found else {}
    return {**_texts(found, "namespace", "name", "uid", "node"), "empty_dirs": empty_dirs, **owner}


def _node(found: Facts) -> dict[str, Any]:
    flags = {name: found.get(name) is True for name in ("ready", "upgrading", "control_plane")}
    return {**_texts(found, "name", "kubelet"), **flags}


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def cluster_of(hostvars: Mapping[str, Any], api_host: str) -> ClusterState:
    """Return the cluster as its control plane ``api_host`` has read it."""
    variables = as_mapping(hostvars[api_host])
    control_plane = as_mapping(as_mapping(variables.get("preflight_host")).get("control_plane"))
    found, texts = _result(variables, "found"), as_mapping(control_plane.get("texts"))
    read = as_mapping(found.get("cluster"))
    return ClusterState(
        version=recorded_version(control_plane),
        error=as_text(read.get("error")) if read else "it was not read",
        configuration=read_document(texts.get("ClusterConfiguration")),
        kubelet_configuration=read_document(texts.get("KubeletConfiguration")),
        proxy=read_document(texts.get("KubeProxyConfiguration")),
        nodes=tuple(map(_node, as_mappings(read.get("nodes")))),
        accepts_check=read.get("accepts_check") is not False,
        pods=tuple(map(_pod, as_mappings(read.get("pods")))),
        groups=tuple(as_texts(read.get("groups"))),
        old_objects=tuple(as_texts(read.get("old_objects"))),
        members=tuple(
            {**_texts(each, "id", "name", "health"), "learner": each.get("learner") is True}
            for each in as_mappings(found.get("etcd"))
        ),
        etcd_error=as_text(found.get("etcd_error")),
        coredns=as_text(read.get("coredns")),
        kube_proxy=as_text(read.get("kube_proxy")),
    )
