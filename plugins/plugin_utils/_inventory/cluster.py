# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check an inventory as a whole: the cluster's hosts, networks and versions. No host is contacted. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.common.yaml import yaml_load

from ...module_utils._problem import Problem
from ...module_utils._versions import compare_versions
from ...module_utils._words import listing
from .hosts import likely_group, rename

Values = Mapping[str, Any]

_TABLE = Path(__file__).resolve().parents[3] / "roles/cluster/vars/main/versions.yml"
_NODE_POD_PREFIX = 24
# Of control planes.
_COUNTS = (1, 3, 5)
_PODS, _SERVICES = "cluster_pod_network", "cluster_service_network"
# The variables with group names.
GROUPS = ("cluster_control_plane_group", "cluster_workers_group")
_OTHER_GROUPS = {
    "cluster_nfs_server_group": "nfs_server",
    "minikube_group": "minikube",
    "docker_group": "docker",
}
GROUP_VARIABLES = (*GROUPS, *_OTHER_GROUPS)
# The group that playbooks for minikube create.
_MINIKUBE = "gpulab_minikube"
_KUBERNETES, _CONTAINERD = "cluster_kubernetes_version", "containerd_version"
_DRIVER, _SOURCE = "nvidia_driver_version", "nvidia_driver_source"
# Section of the version table for each variable.
_VERSIONS = {
    _KUBERNETES: "kubernetes",
    _CONTAINERD: "containerd",
    "nvidia_container_toolkit_version": "nvidia_container_toolkit",
}


def members(names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Check the groups of the control plane and the workers, and find hosts without a group."""
    control_planes, workers = (groups.get(name, []) for name in names)
    meant = [likely_group(name, kind, groups, names) for name, kind in zip(names, ("control_plane", "workers"))]
    if len(control_planes) not in _COUNTS:
        have = f"it has {len(control_planes)} ({listing(control_planes)})" if control_planes else "it has none"
        yield Problem(
            "control_plane_count",
            f"The group {names[0]} must contain 1, 3 or 5 hosts, but {have}",
            f"inventory group {names[0]}",
            "Writes need more than half of the control planes: with an even number, no more of them may fail than with "
            "one less, and more than 5 slow down every write"
            if control_planes
            else "The first control plane creates the cluster",
            f"Put 1, 3 or 5 hosts into {names[0]}"
            if control_planes
            else _put("the host that should become the control plane", names[0], meant[0], GROUPS[0], groups),
        )
    if not workers:
        yield Problem(
            "no_workers",
            f"The group {names[1]} contains no hosts",
            f"inventory group {names[1]}",
            "Pods run on workers, so nothing could be verified; the group's name may be misspelled in the inventory",
            f"{_put('the workers', names[1], meant[1], GROUPS[1], groups)}; a single machine goes into both groups",
        )
    for host in groups.get("ungrouped", []):
        if host != "localhost":
            yield Problem(
                "host_without_group",
                f"{host} does not belong to any group in the inventory",
                "inventory",
                "Every run would silently skip it",
                f"Put it into {' or '.join(names)}, or into a separate group if it is not part of the cluster",
                host,
            )


def _put(who: str, wanted: str, meant: str, variable: str, groups: Mapping[str, Sequence[str]]) -> str:
    found = rename(meant, wanted, variable, groups) if meant else f"put {who} into {wanted}"
    return found[0].upper() + found[1:]


def unused_groups(hosts: Mapping[str, Values], given: Collection[str], seen: Collection[str]) -> Iterator[Problem]:
    """Find group names set in the inventory: plays select their hosts before variables of hosts are available.

    ``given`` are the variables of -e, ``seen`` the group names that the plays use.
    """
    for name, default in (*zip(GROUPS, ("control_plane", "workers")), *_OTHER_GROUPS.items()):
        found = {str(values[name]) for values in hosts.values() if name in values}
        for value in sorted(found - {default, _MINIKUBE}):
            if name not in given and (name not in GROUPS or value in seen):
                yield Problem(
                    "group_variable_unused",
                    f"{name} is set in the inventory, where it has no effect on which hosts are chosen",
                    name,
                    "The playbooks would work on part of the hosts: they choose them before variables are known",
                    f"Remove it from the inventory, and run with -e {name}={value}, or rename the group to {default}",
                )


def _alike(name: str) -> Callable[[Mapping[str, Values]], Iterator[Problem]]:
    def rule(hosts: Mapping[str, Values]) -> Iterator[Problem]:
        found: dict[str, list[str]] = {}
        for host, values in hosts.items():
            found.setdefault(str(values[name]), []).append(host)
        if len(found) > 1:
            words = "; ".join(f"{value} for {listing(names)}" for value, names in found.items())
            yield Problem(
                "cluster_setting_differs",
                f"{name} differs between hosts of the cluster: {words}",
                name,
                "A cluster can have only one value",
                "Set it once for all hosts, including the control plane (group_vars/all)",
            )

    return rule


def _known_version(name: str) -> Callable[[Mapping[str, Values]], Iterator[Problem]]:
    def rule(hosts: Mapping[str, Values]) -> Iterator[Problem]:
        known = list(_table()[_VERSIONS[name]])
        for version in dict.fromkeys(str(values[name]) for values in hosts.values()):
            if version not in known:
                yield Problem(
                    "version_unknown",
                    f"{name} is {version}, which is not in the table of versions",
                    name,
                    "Only versions that are known to work with the others are installed",
                    f"Choose one of {listing(known)}",
                )

    return rule


def _known_driver(hosts: Mapping[str, Values]) -> Iterator[Problem]:
    """Yield drivers that no distribution has; drivers for some distributions are checked when hosts are read."""
    known = list(_table()["nvidia_driver"])
    wanted: dict[str, list[str]] = {}
    for host, values in hosts.items():
        if values[_SOURCE] == "cuda_repository":
            wanted.setdefault(str(values[_DRIVER]), []).append(host)
    for version, names in wanted.items():
        if version not in (*known, "auto"):
            yield Problem(
                "driver_version_unknown",
                f"{_DRIVER} is {version} for {listing(names)}, which is not in the table of versions",
                _DRIVER,
                "From NVIDIA's repository, only versions that were tried with all other parts are installed",
                f"Choose one of {listing(known)}, or auto; {_SOURCE}=preinstalled keeps a driver that is installed",
            )


def _containerd_is_new_enough(hosts: Mapping[str, Values]) -> Iterator[Problem]:
    table = _table()
    for kubernetes, version in dict.fromkeys((values[_KUBERNETES], values[_CONTAINERD]) for values in hosts.values()):
        least = table["kubernetes"].get(kubernetes, {}).get("containerd_minimum", "0")
        if version in table["containerd"] and compare_versions(version, least) < 0:
            yield Problem(
                "containerd_too_old",
                f"containerd {version} is too old for Kubernetes {kubernetes}",
                _CONTAINERD,
                f"Kubernetes {kubernetes} needs containerd {least} or newer",
                f"Set {_CONTAINERD} to {least} or newer",
            )


def _networks(hosts: Mapping[str, Values]) -> Iterator[Problem]:
    for texts in dict.fromkeys((str(values[_PODS]), str(values[_SERVICES])) for values in hosts.values()):
        parsed: list[ipaddress.IPv4Network] = []
        for variable, text in zip((_PODS, _SERVICES), texts):
            if "/" not in text:
                yield Problem(
                    "network_invalid",
                    f"{variable} is {text!r}, which has no prefix length",
                    variable,
                    "A network is an address and the number of bits that its addresses have in common",
                    f"Write both, such as {text or '10.244.0.0'}/16",
                )
                continue
            try:
                parsed.append(ipaddress.IPv4Network(text))
            except ValueError as error:
                yield Problem(
                    "network_invalid",
                    f"{variable} is {text!r}, which is not a valid IPv4 network",
                    variable,
                    str(error),
                    "Use CIDR notation, such as 10.244.0.0/16",
                )
        if len(parsed) == len(texts):
            yield from _sizes(len(hosts), *parsed)


def _sizes(nodes: int, pods: ipaddress.IPv4Network, services: ipaddress.IPv4Network) -> Iterator[Problem]:
    room = 2 ** (_NODE_POD_PREFIX - pods.prefixlen) if pods.prefixlen <= _NODE_POD_PREFIX else 0
    if room < nodes:
        yield Problem(
            "pod_network_too_small",
            f"The pod network {pods} has room for {room} nodes, but the inventory contains {nodes}",
            _PODS,
            f"Each node gets a /{_NODE_POD_PREFIX} of this network",
            "Choose a larger network",
        )
    if not 12 <= services.prefixlen <= 28:
        yield Problem(
            "service_network_size",
            f"The service network {services} has a size that kubeadm refuses",
            _SERVICES,
            "kubeadm accepts networks from /12 to /28",
            "Choose a network of such a size, such as 10.96.0.0/12",
        )
    if pods.overlaps(services):
        yield Problem(
            "networks_overlap",
            f"The pod network {pods} and the service network {services} overlap",
            f"{_PODS}, {_SERVICES}",
            "An address could belong to a pod and to a service",
            "Choose networks that don't overlap",
        )


def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = yaml_load(_TABLE.read_text(encoding="utf-8"))["cluster_versions"]
    return table


# Rules, each with the variables that it needs from every host of the cluster.
RULES: tuple[tuple[tuple[str, ...], Callable[[Mapping[str, Values]], Iterable[Problem]]], ...] = (
    *(
        ((name,), _alike(name))
        for name in (
            *(_KUBERNETES, _PODS, _SERVICES, "cluster_name", "cluster_api_name"),
            *("cluster_dns_domain", "cluster_network_plugin", "flannel_backend"),
        )
    ),
    *(((name,), _known_version(name)) for name in _VERSIONS),
    ((_DRIVER, _SOURCE), _known_driver),
    ((_KUBERNETES, _CONTAINERD), _containerd_is_new_enough),
    ((_PODS, _SERVICES), _networks),
)
