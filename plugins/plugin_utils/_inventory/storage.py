# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check an NFS server in the inventory, and the cluster's cache that mounts its export. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ...module_utils._problem import Problem
from ...module_utils._words import listing

Values = Mapping[str, Any]

GROUP = "cluster_nfs_server_group"
# The variables that are needed from the server, and from each host of the cluster.
SERVER = ("nfs_server_state", "nfs_server_path")
CACHE = ("cluster_storage", "nfs_cache_state", "nfs_cache_server", "nfs_cache_path")


def count(group: str, hosts: Collection[str]) -> Iterator[Problem]:
    if len(hosts) > 1:
        yield Problem(
            "nfs_server_count",
            f"The group {group} must contain at most one host, but it has {len(hosts)} ({listing(hosts)})",
            f"inventory group {group}",
            "A claim refers to one server, and data is not copied between servers",
            f"Leave only one host in {group}",
        )


def server(host: str, addresses: Collection[str], server: Values, cluster: Mapping[str, Values]) -> Iterator[Problem]:
    """Check that the host exports what the cluster's cache mounts, if the cache uses this server."""
    paths = dict.fromkeys(str(values["nfs_cache_path"]) for values in cluster.values() if _mounts(values, addresses))
    exported = str(server["nfs_server_path"])
    if server["nfs_server_state"] == "absent" and paths:
        yield Problem(
            "nfs_server_withdrawn_below_the_cache",
            f"nfs_server_state is absent, but the cache of the cluster is on {host}",
            "nfs_server_state, nfs_cache_state",
            "Pods that use the claim would hang as soon as the export is removed",
            "Also set nfs_cache_state to absent, which keeps the data, or remove nfs_server_state",
            host,
        )
        return
    for path in paths:
        if path and path != exported and not path.startswith(f"{exported}/"):
            yield Problem(
                "nfs_cache_not_exported",
                f"nfs_cache_path is {path}, but {host} exports {exported}",
                "nfs_cache_path, nfs_server_path",
                "Nodes can mount only directories that the server exports",
                f"Set nfs_cache_path to {exported} or a directory in it, or nfs_server_path to {path}",
                host,
            )


def _mounts(values: Values, addresses: Collection[str]) -> bool:
    wanted = "nfs_cache" in values["cluster_storage"] and values["nfs_cache_state"] == "present"
    return wanted and str(values["nfs_cache_server"]).strip("[]") in addresses
