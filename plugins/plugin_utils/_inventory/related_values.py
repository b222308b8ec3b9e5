# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check values of variables that depend on each other, those of one host and those of all hosts of a cluster.

Values are those of the inventory, or the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ...module_utils._apt.key import unpinned
from ...module_utils._cluster import pools
from ...module_utils._problem import Problem
from ...module_utils._secrets import mask
from ...module_utils._words import listing
from .. import _nfs
from .component_values import REPOSITORIES, minor

Values = Mapping[str, Any]

# Sources whose driver may be in a directory other than /.
_ELSEWHERE = ("daemonset", "preinstalled", "operator")
_SHUTDOWN = ("kubeadm_shutdown_grace_period", "kubeadm_shutdown_grace_period_critical_pods")


def _installer(host: str, values: Values) -> Iterator[Problem]:
    if values["nvidia_driver_source"] == "daemonset" and not values["nvidia_driver_installer_image"]:
        yield Problem(
            "installer_image_missing",
            "nvidia_driver_source is daemonset, but nvidia_driver_installer_image is empty",
            "nvidia_driver_installer_image",
            "A pod of that image installs the driver",
            "Set the image, or choose another nvidia_driver_source",
            host,
        )


def _root(host: str, values: Values) -> Iterator[Problem]:
    root, source = values["nvidia_driver_root"], values["nvidia_driver_source"]
    if root != "/" and source not in _ELSEWHERE:
        yield Problem(
            "driver_root_unused",
            f"nvidia_driver_root is {root}, but nvidia_driver_source is {source}",
            "nvidia_driver_root",
            "Packages install the driver only below /",
            f"Remove nvidia_driver_root, or set nvidia_driver_source to {' or '.join(_ELSEWHERE)}",
            host,
        )


def _operator(host: str, values: Values) -> Iterator[Problem]:
    source, manager = values["nvidia_driver_source"], values["cluster_gpu_manager"]
    if source == "operator" and manager != "gpu_operator":
        yield Problem(
            "gpu_operator_not_chosen",
            f"nvidia_driver_source is operator, but cluster_gpu_manager is {manager}",
            "nvidia_driver_source, cluster_gpu_manager",
            "The GPU Operator is configured to install the driver but would not be installed, so nothing would "
            "install a driver",
            "Set cluster_gpu_manager to gpu_operator for all hosts, or choose another nvidia_driver_source",
            host,
        )


def _tunnel(host: str, values: Values) -> Iterator[Problem]:
    if boolean(values["cluster_api_tunnel"]) and values["cluster_api_delegate"] != "localhost":
        yield Problem(
            "tunnel_with_delegate",
            f"cluster_api_tunnel is true, but cluster_api_delegate is {values['cluster_api_delegate']}",
            "cluster_api_tunnel, cluster_api_delegate",
            "The tunnel starts on the controller, so tasks that use the API must run there",
            "Remove one of the two settings",
            host,
        )


def _toolkits(host: str, values: Values) -> Iterator[Problem]:
    versions, default = values["cuda_toolkit_versions"], values["cuda_toolkit_default"]
    both = [version for version in versions if minor(version) in values["cuda_toolkit_remove"]]
    if both:
        yield Problem(
            "cuda_wanted_and_removed",
            f"CUDA {listing(map(minor, both))} is both wanted and removed",
            "cuda_toolkit_versions, cuda_toolkit_remove",
            f"Wanted is {listing(both)}",
            "Remove it from one of the two settings",
            host,
        )
    if default and default not in versions:
        yield Problem(
            "cuda_default_unknown",
            f"cuda_toolkit_default is {default}, which is not among cuda_toolkit_versions",
            "cuda_toolkit_default",
            f"The default must be one of the releases to install ({listing(versions) or 'none'})",
            "Choose one of them, add it to cuda_toolkit_versions, or remove cuda_toolkit_default",
            host,
        )


def _shutdown(host: str, values: Values) -> Iterator[Problem]:
    total, critical = (int(values[name]) for name in _SHUTDOWN)
    if 0 < total < critical:
        yield Problem(
            "shutdown_periods_invalid",
            f"Of the {total} seconds that a shutdown waits for pods, {critical} are for critical pods",
            ", ".join(_SHUTDOWN),
            "The kubelet does not start with such periods",
            f"Set {_SHUTDOWN[0]} to the whole time, and {_SHUTDOWN[1]} to a part of it",
            host,
        )


def _copies(host: str, values: Values) -> Iterator[Problem]:
    if values["backup_places"] and not values["backup_recipients"]:
        yield Problem(
            "backup_places_in_clear",
            f"Backups would be copied to {mask(listing(values['backup_places']))} in clear",
            "backup_places, backup_recipients",
            "They contain all Secrets of the cluster, and the keys of its CAs",
            "Set backup_recipients to public keys of age, or remove backup_places",
            host,
        )


def _remotes(host: str, values: Values) -> Iterator[Problem]:
    known = re.findall(r"(?m)^[ \t]*\[([^\]\n]+)\]", str(values["backup_rclone_config"]))
    unknown = [place for place in values["backup_places"] if not _is_known(str(place), known)]
    # Without a configuration of its own, rclone uses that of root on the host.
    if values["backup_rclone_config"] and unknown:
        yield Problem(
            "backup_place_unknown",
            f"rclone can't know {mask(listing(unknown))}",
            "backup_places, backup_rclone_config",
            "A place begins with the name of a section of rclone's configuration"
            + (f", which has {listing(known)}" if known else ", which has none"),
            "Correct the name, or add the section to backup_rclone_config",
            host,
        )


def _is_known(place: str, remotes: Sequence[str]) -> bool:
    return place.startswith("/") or place.partition(":")[0] in remotes


def _cache(host: str, values: Values) -> Iterator[Problem]:
    missing = [name for name in ("nfs_cache_server", "nfs_cache_path") if not values[name]]
    if "nfs_cache" in values["cluster_storage"] and values["nfs_cache_state"] == "present" and missing:
        yield Problem(
            "nfs_cache_source_missing",
            f"cluster_storage contains nfs_cache without {listing(missing)}",
            ", ".join(missing),
            "The cache is a directory on an NFS server",
            "Set the server and the directory that it exports",
            host,
        )


def _export(host: str, values: Values) -> Iterator[Problem]:
    for name in ("nfs_server_clients", "nfs_server_insecure_clients"):
        if opened := [] if values["nfs_server_any_client"] else _nfs.open_clients(values[name]):
            yield Problem(
                "nfs_server_client_open",
                f"{name}: {listing(opened)} is not limited to known addresses",
                name,
                "Whoever reaches the server as such a client can read and change the directory, as any user",
                "Name the nodes or their network, such as 192.0.2.0/24, or set nfs_server_any_client",
                host,
            )


def _pinned(role: str) -> Callable[[str, Values], Iterator[Problem]]:
    url, pins = f"{role}_repository_url", f"{role}_repository_key_fingerprints"

    def rule(host: str, values: Values) -> Iterator[Problem]:
        if unpinned(str(values[url]), values[pins]):
            yield Problem(
                "repository_key_unpinned",
                f"{pins} is empty, and {url}, {values[url]}, is not encrypted",
                pins,
                "Anyone on the way could send a key and packages of their own, which root would install",
                "Set the fingerprint of the repository's key, or use an https address",
                host,
            )

    return rule


# Rules for related values of one host, each with the variables that it needs.
HOST: tuple[tuple[tuple[str, ...], Callable[[str, Values], Iterable[Problem]]], ...] = (
    (("nvidia_driver_source", "nvidia_driver_installer_image"), _installer),
    (("nvidia_driver_source", "nvidia_driver_root"), _root),
    (("nvidia_driver_source", "cluster_gpu_manager"), _operator),
    (("cluster_api_tunnel", "cluster_api_delegate"), _tunnel),
    (("cuda_toolkit_versions", "cuda_toolkit_default", "cuda_toolkit_remove"), _toolkits),
    (_SHUTDOWN, _shutdown),
    (("backup_places", "backup_recipients"), _copies),
    (("backup_places", "backup_rclone_config"), _remotes),
    (("cluster_storage", "nfs_cache_state", "nfs_cache_server", "nfs_cache_path"), _cache),
    (("nfs_server_clients", "nfs_server_insecure_clients", "nfs_server_any_client"), _export),
    *(((f"{role}_repository_url", f"{role}_repository_key_fingerprints"), _pinned(role)) for role in REPOSITORIES),
)


def _one_manager(hosts: Mapping[str, Values]) -> Iterator[Problem]:
    found: dict[str, list[str]] = {}
    for host, values in hosts.items():
        found.setdefault(values["cluster_gpu_manager"], []).append(host)
    if len(found) > 1:
        words = "; ".join(f"{manager} for {listing(names)}" for manager, names in found.items())
        yield Problem(
            "gpu_managers_differ",
            f"cluster_gpu_manager differs between hosts of the cluster: {words}",
            "cluster_gpu_manager",
            "Only one of the two can offer the GPUs of the cluster, for all nodes",
            "Set it once for all hosts, the control plane included (group_vars/all)",
        )


def _homeless(hosts: Mapping[str, Values]) -> Iterator[Problem]:
    wishes = {host: pools.wanted({}, values["cluster_node_taints"]) for host, values in hosts.items()}
    if pools.homeless([{"metadata": {"name": host}, "spec": {}} for host in hosts], wishes):
        yield Problem(
            "nodes_all_tainted",
            f"Every node would have a taint: {listing(hosts)}",
            "cluster_node_taints",
            "Pods that tolerate none of them, such as the cluster's DNS, could not be scheduled",
            "Remove the taints from one node (cluster_node_taints=[]), such as the control plane or a worker",
        )


# The same for all hosts of the cluster.
CLUSTER: tuple[tuple[tuple[str, ...], Callable[[Mapping[str, Values]], Iterable[Problem]]], ...] = (
    (("cluster_gpu_manager",), _one_manager),
    (("cluster_node_taints",), _homeless),
)
