# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which version of Kubernetes a cluster and its nodes have. Pure.

The cluster's own version decides what site.yml installs, whatever the inventory says: only an upgrade changes it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ...module_utils._cluster.records import KUBERNETES_UPGRADE, offered, record_of
from ...module_utils._json import as_mapping, as_mappings, as_text
from ...module_utils._kubeadm.manifests import API_SERVER, image_tag
from ...module_utils._versions import compare_versions
from .document import read_document

# How many minors the kubelet may be older than the API server (Kubernetes' version skew policy).
KUBELET_SKEW = 3
# Packages of programs that only runs of this collection, and people, start.
PROGRAMS = frozenset({"kubeadm", "cri-tools"})
NONE, PENDING, INTERRUPTED = "none", "pending", "interrupted"
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


def minors_behind(node: Any, cluster: Any) -> int | None:
    """Return how many minors a version of a node is behind that of its cluster, None if one of them is unknown."""
    older, newer = release(node), release(cluster)
    return max(0, minor(newer) - minor(older)) if older and newer else None


def recorded_version(control_plane: Mapping[str, Any]) -> str:
    """Return the version in the cluster's configuration, or else that of its API; empty if none was read.

    ``control_plane`` are the facts of preflight. The configuration has the new version once the first control plane is
    upgraded, and new nodes get it.
    """
    text = as_mapping(control_plane.get("texts")).get("ClusterConfiguration")
    return release(read_document(text).get("kubernetesVersion")) or release(control_plane.get("version"))


def cluster_version(
    control_planes: Iterable[str],
    hostvars: Mapping[str, Any],
    wanted: str,
    known: Collection[str],
    manifest: Any = None,
) -> str:
    """Return the version of the cluster; ``wanted`` if there is none, or if the table does not have it.

    It is the one in the cluster's configuration, which preflight reads. Without it, it is that of an API server, in the
    facts of preflight, or in a ``manifest`` (a result of slurp), which control planes may also have as a fact.
    """
    hosts = [hostvars[name] for name in control_planes]
    found = [as_mapping(as_mapping(each.get("preflight_host")).get("control_plane")) for each in hosts]
    versions = [
        *map(recorded_version, found),
        *map(server_version, found),
        *(_version_in(each) for each in (manifest, *(host.get("cluster_api_manifest") for host in hosts))),
    ]
    return next((each for each in versions if each in known), wanted)


def _version_in(manifest: Any) -> str:
    """Return the version in a manifest of an API server that slurp has read, empty if there is none."""
    try:
        text = base64.b64decode(as_text(as_mapping(manifest).get("content"))).decode()
    except ValueError:
        return ""
    return release(image_tag(text, API_SERVER))


def server_version(control_plane: Mapping[str, Any]) -> str:
    """Return the version in the manifest of an API server, empty if there is none. The facts are those of preflight."""
    return release(as_mapping(control_plane.get("components")).get(API_SERVER))


def node_version(host: Any, cluster: str, known: Collection[str]) -> str:
    """Return the version that a host has or gets: a node whose upgrade was deferred keeps its own.

    ``host`` are the facts of preflight.
    """
    facts = as_mapping(host)
    own = release_of_package(as_mapping(facts.get("installed")).get("kubelet"))
    is_behind = own in known and compare_versions(own, cluster) < 0
    return own if is_behind and as_mapping(facts.get("cluster")).get("finished") else cluster


def kubernetes_packages(
    table: Mapping[str, Mapping[str, Any]], node: str, cluster: str, control_plane: bool
) -> dict[str, str]:
    """Return the versions of Kubernetes' packages that a host has or gets, empty if the table does not have them.

    kubeadm of a control plane has at least the version of the cluster, also if its kubelet is older.
    """
    newer = control_plane and cluster in table and compare_versions(cluster, node) > 0
    own, programs = (as_mapping(table.get(each, {}).get("packages")) for each in (node, cluster if newer else node))
    return {name: programs[name] if name in PROGRAMS else version for name, version in own.items()}


def only_programs_are_newer(installed: Any, packages: Mapping[str, str]) -> bool:
    """Return whether only programs that no node runs are newer than wanted, so that they can be downgraded.

    An upgrade that was interrupted, or given up, may have installed them.
    """
    versions = {name: release_of_package(version) for name, version in as_mapping(installed).items()}
    newer = {
        name
        for name, wanted in packages.items()
        if versions.get(name) and compare_versions(versions[name], release_of_package(wanted)) > 0
    }
    return bool(newer) and newer <= PROGRAMS


def kubelet_state(running: str, installed: str, upgrading: Any, wanted: str) -> str:
    """Return whether the upgrade of a kubelet is PENDING, was INTERRUPTED after it, or NONE is needed.

    ``running`` and ``installed`` are releases, empty if they are unknown; ``upgrading``: whether the node has a record.
    """
    if any(each and compare_versions(each, wanted) < 0 for each in (running, installed)):
        return PENDING
    return INTERRUPTED if upgrading else NONE


def pending_upgrade(host: Any, api_host: Any, cluster: str) -> dict[str, list[str]]:
    """Return what is pending of a node that is behind its cluster, or in whose upgrade a run was interrupted, by role.

    ``host`` and ``api_host`` are facts of preflight.
    """
    facts = as_mapping(host)
    nodes = as_mappings(as_mapping(as_mapping(api_host).get("control_plane")).get("nodes"))
    found = next((each for each in nodes if facts.get("node_name") and each.get("name") == facts["node_name"]), {})
    installed = release_of_package(as_mapping(facts.get("installed")).get("kubelet"))
    running = release(found.get("kubelet")) or installed
    state = kubelet_state(running, installed, found.get("upgrading"), cluster)
    if state == NONE or not as_mapping(facts.get("cluster")).get("finished"):
        return {}
    return {"kubernetes_upgrade": [f"kubelet {running} -> {cluster}" if state == PENDING else f"kubelet {cluster}"]}


def kubelet_change(node: Any, installed: Any, wanted: str, has_gpus: bool) -> dict[str, Any]:
    """Return what an upgrade changes on a node in use.

    ``node`` is the Node of the API, with the record of an interrupted run, ``installed`` are the versions of packages
    of the host. The result has the version of the running ``kubelet``, whether the change is ``pending``, or only has
    to be finished (``interrupted``), and the resources that the node ``offered`` before.
    """
    found = as_mapping(node)
    annotations = as_mapping(as_mapping(found.get("metadata")).get("annotations"))
    kubelet = release(as_mapping(as_mapping(found.get("status")).get("nodeInfo")).get("kubeletVersion"))
    record = record_of({"metadata": {"annotations": annotations}}, KUBERNETES_UPGRADE)
    package = release_of_package(as_mapping(installed).get("kubelet"))
    state = kubelet_state(kubelet, package, record, wanted)
    return {
        "kubelet": kubelet,
        "pending": state == PENDING,
        "interrupted": state == INTERRUPTED,
        "offered": offered(found, record) if has_gpus else {},
    }
