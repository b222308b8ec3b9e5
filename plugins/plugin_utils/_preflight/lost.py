# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rule for a control plane that has lost its data: it is restored, and never initialized again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...module_utils._backup.manifest import read_archive_name
from ...module_utils._errors import DomainError
from ...module_utils._files import read_text
from ...module_utils._kubeadm.kubeconfig import KubeconfigError, read_kubeconfig
from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .._inventory.access import inventory_paths
from .model import Cluster, Reading

_PORT = 6443
_MOST = 5
# kubeadm's name for clusters, also for those that earlier releases have made.
_UNNAMED = "kubernetes"
# A restore is refused by its own rules, and replaces what these refuse.
NOT_FOR_RESTORES = frozenset(
    {
        *("control_plane_refused", "cluster_unreadable", "host_in_other_cluster", "port_in_use"),
        *("control_plane_lost", "upgrade_unfinished"),
    }
)


def control_plane_lost(cluster: Cluster) -> Iterator[Problem]:
    """Refuse to initialize a control plane if anything shows that its cluster existed before."""
    first = cluster.control_plane
    if first is None or first.facts["cluster"]["begun"] or cluster.settings.get("new_cluster"):
        return
    kept = cluster.settings.get("kept") or {}
    found = [
        *(f"the host {each.host}" for each in cluster.read if each is not first and knows_cluster(each, cluster)),
        *(f"the kubeconfig {path}" for path in kept.get("kubeconfigs", ())),
        *(f"the backup {path}" for path in kept.get("backups", ())),
    ]
    if found:
        more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
        yield first.problem(
            "control_plane_lost",
            f"The host has no control plane, but its cluster existed before, as {listing(found[:_MOST] + more)} shows",
            "/etc/kubernetes, /var/lib/etcd",
            "A new cluster would have another CA, so that no other node and no kubeconfig could use it",
            "Restore the cluster from a backup (docs/restore.md). If you want a new cluster in its place, reset the "
            "other hosts (docs/uninstall.md), and set preflight_new_cluster=true",
        )


def knows_cluster(reading: Reading, cluster: Cluster) -> bool:
    """Return whether a host is a node of the cluster of the inventory, or has a record of it."""
    state, name = reading.facts["cluster"], str(cluster.settings.get("name") or "")
    if name and state.get("name") == name:
        return True
    endpoints = {str(cluster.settings.get("api_endpoint") or ""), f"{cluster.settings.get('api_name')}:{_PORT}"}
    return bool(state["ca_hashes"]) and state.get("endpoint") in endpoints - {""}


def kept_files(kubeconfig: str, sources: Sequence[str], name: str) -> dict[str, list[str]]:
    """Return the kubeconfig that an earlier run has kept, and the backups of this cluster next to the inventory."""
    found = Path(kubeconfig).expanduser() if kubeconfig else None
    directories = {path.absolute().parent for path in inventory_paths(sources)}
    backups = sorted(
        (archive.taken, str(path))
        for directory in directories
        for pattern in ("gpulab-*", "*/gpulab-*")
        for path in directory.glob(pattern)
        if (archive := read_archive_name(path.name)) and archive.cluster in (name, _UNNAMED)
    )
    return {
        "kubeconfigs": [str(found)] if found and _is_kubeconfig(found) else [],
        "backups": [path for _taken, path in backups[-1:]],
    }


def _is_kubeconfig(path: Path) -> bool:
    try:
        return bool(read_kubeconfig(read_text(path) or "").server)
    except (KubeconfigError, DomainError):
        return False
