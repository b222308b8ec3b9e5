# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which version of Kubernetes a cluster and its nodes have. Pure.

The cluster's own version decides what site.yml installs, whatever the inventory says: only an upgrade changes it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ...module_utils._json import as_mapping, as_text
from ...module_utils._versions import compare_versions
from .document import read_document

# How many minors the kubelet may be older than the API server (Kubernetes' version skew policy).
KUBELET_SKEW = 3
_RELEASE = re.compile(r"v?([0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4})")
_PACKAGE = re.compile(r"(?:[0-9]+:)?([0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4})(?:[-+~].*)?")


def release(text: Any) -> str:
    """Return a release as its numbers, such as 1.36.5 for v1.36.5; empty for anything else."""
    found = _RELEASE.fullmatch(as_text(text))
    return found[1] if found else ""


def release_of_package(text: Any) -> str:
    """Return the release of a package's version, such as 1.36.5 for 1.36.5-1.1; empty for anything else."""
    found = _PACKAGE.fullmatch(as_text(text))
    return found[1] if found else ""


def minor(version: str) -> int:
    """Return the minor number of a release."""
    return int(version.split(".")[1])


def recorded_version(control_plane: Mapping[str, Any]) -> str:
    """Return the version in the cluster's configuration, or else that of its API; empty if none was read.

    ``control_plane`` are the facts of preflight. The configuration has the new version once the first control plane is
    upgraded, and new nodes get it.
    """
    text = as_mapping(control_plane.get("texts")).get("ClusterConfiguration")
    return release(read_document(text).get("kubernetesVersion")) or release(control_plane.get("version"))


def cluster_version(
    control_planes: Iterable[str], hostvars: Mapping[str, Any], wanted: str, known: Collection[str]
) -> str:
    """Return the version of the cluster, ``wanted`` if there is none, or one that the table does not have."""
    for name in control_planes:
        found = as_mapping(as_mapping(hostvars[name].get("preflight_host")).get("control_plane"))
        version = recorded_version(found)
        if version in known:
            return version
    return wanted


def node_version(host: Any, cluster: str, known: Collection[str]) -> str:
    """Return the version that a host has or gets: a node that was left for a later upgrade keeps its own.

    ``host`` are the facts of preflight.
    """
    facts = as_mapping(host)
    own = release_of_package(as_mapping(facts.get("installed")).get("kubelet"))
    is_behind = own in known and compare_versions(own, cluster) < 0
    return own if is_behind and as_mapping(facts.get("cluster")).get("finished") else cluster


def minors_late(node: Any, cluster: Any) -> int | None:
    """Return how many minors a version of a node is behind that of its cluster, None if one of them is unknown."""
    versions = [release(each) for each in (node, cluster)]
    return minors_behind(*versions) if all(versions) else None


def minors_behind(node: str, cluster: str) -> int:
    """Return how many minors a node is behind its cluster, 0 for one that is not."""
    return max(0, minor(cluster) - minor(node))
