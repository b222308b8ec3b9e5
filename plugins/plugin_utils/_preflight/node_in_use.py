# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for nodes of a running cluster: kubelet, name, container runtime, and files of kubeadm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...module_utils._kubeadm import init_decision
from ...module_utils._kubeadm.damage import KUBELET_CONF, KUBELET_CONFIGURATION
from ...module_utils._kubeadm.join_decision import RESTORE_CA
from ...module_utils._problem import Problem
from ...module_utils._versions import compare_versions
from ...module_utils._words import listing
from .._nodes import kubelet as kubelet_settings
from .._nodes.kubernetes import (
    KUBELET_SKEW,
    minors_behind,
    recorded_version,
    release,
    release_of_package,
    server_version,
)
from .in_use import VERSION, keep_version
from .model import Cluster, Facts, HostRule, Reading
from .recorded import control_plane_facts, each_control_plane, lost_files

_RUNTIME = "unix:///var/run/containerd/containerd.sock"


def kubelet(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check for a node whose kubelet differs from the rest of its cluster, and is not one that this run upgrades."""
    wanted = str(cluster.settings["kubernetes_version"])
    installed = release_of_package(reading.facts["installed"].get("kubelet"))
    facts = [found for _reading, found in control_plane_facts(cluster)]
    # In an upgrade, the API is newer than the configuration for a moment. It may not answer.
    read = [(release(found["version"]), recorded_version(found), server_version(found)) for found in facts]
    running = [each for versions in read for each in versions if each]
    behind = installed in cluster.settings["kubernetes_versions"] and any(
        compare_versions(installed, each) < 0 and (minors_behind(installed, each) or 0) <= KUBELET_SKEW
        for each in running
    )
    if reading.finished and installed and installed != wanted and installed not in running and not behind:
        # If the API was not read, all nodes may have this version.
        nodes = {release_of_package(each.facts["installed"].get("kubelet")) for each in cluster.read if each.finished}
        known = bool(running) or len(nodes) > 1
        yield reading.problem(
            "kubelet_version_differs",
            f"The node's kubelet is {installed}, but {VERSION} is {wanted}",
            VERSION,
            "The kubelet of a node in use is not changed unless you ask for it",
            "Upgrade the node to the version of the cluster as described in kubeadm's documentation (kubectl drain, "
            "apt-get install kubeadm, kubeadm upgrade node, apt-get install kubelet, kubectl uncordon), and run this "
            "again"
            if known
            else f"Set {VERSION} to {installed}",
            **({} if known else dict(keep_version(installed, cluster))),
        )


def node_name(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    there, wanted = reading.facts["cluster"].get("node_name", ""), str(reading.settings["node_name"])
    if reading.finished and there and wanted and there != wanted:
        yield reading.problem(
            "node_name_differs",
            f"The host is the node {there} of its cluster, but its name in this run is {wanted}",
            "host name, cluster_node_name",
            "A node can't be renamed: this run would wait for a node that does not exist",
            f"Set cluster_node_name to {there} for this host",
            cluster_node_name=there,
        )


def container_runtime(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    there = str(reading.facts["cluster"].get("container_runtime", ""))
    if reading.finished and there and _socket(there) != _socket(_RUNTIME):
        yield reading.problem(
            "container_runtime_differs",
            f"The node's kubelet uses the container runtime at {there}, but this collection sets up containerd",
            "/var/lib/kubelet",
            "All pods of the node would stay in the other runtime",
            f"Drain the node and move it to {_RUNTIME} as described in kubeadm's documentation, or remove it from the "
            "inventory",
        )


def damaged_files(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check nodes that this run leaves as they are. Where kubeadm was interrupted, the run completes or refuses it."""
    lost = lost_files(reading)
    actions = [found["action"] for each, found in each_control_plane(cluster) if each == reading]
    left = actions == [init_decision.FINISHED] if actions else reading.finished
    if left and lost:
        yield reading.problem(
            "kubeadm_files_damaged",
            f"Files of kubeadm are empty, cut off or missing, as after a power failure: {listing(lost)}",
            "/etc/kubernetes, /var/lib/kubelet",
            "The node is running, but can't start again with these files",
            _repair(reading.facts["cluster"], lost, reading.settings["node_name"]),
        )


def kubelet_unreadable(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check nodes that can't get pending settings of the kubelet. The cluster does not store them without these."""
    state = reading.facts["cluster"]
    for _reading, found in control_plane_facts(cluster):
        recorded, inventory = found["texts"].get("KubeletConfiguration"), cluster.settings["kubelet_configuration"]
        pending = kubelet_settings.kubelet_plan(recorded, inventory)["cluster"]
        if pending and kubelet_settings.is_unreadable(state) and not state.get("damaged"):
            yield reading.problem(
                "kubelet_configuration_unreadable",
                f"The node does not get the settings of kubeadm_kubelet_configuration: {KUBELET_CONFIGURATION} is not "
                "a text of at most 64 KiB with a mapping in YAML, without aliases",
                KUBELET_CONFIGURATION,
                "The cluster stores the settings when all nodes have them",
                "Write the file in that form, and run this again",
            )


def _repair(state: Facts, lost: Sequence[str], node: Any) -> str:
    if state["role"] == "control_plane":
        return init_decision.repair(lost)
    if KUBELET_CONF in lost and not state["ca_hashes"]:
        return RESTORE_CA
    return (
        f"Run `kubectl drain --ignore-daemonsets {node}`, then `systemctl stop kubelet` on the host, and run this "
        f"again: the host joins its cluster again. Then run `kubectl uncordon {node}`"
    )


def _socket(endpoint: str) -> str:
    return re.sub(r"\A(?:unix:)?/*(?:var/)?run/", "/run/", endpoint)


RULES: tuple[HostRule, ...] = (kubelet, node_name, container_runtime, damaged_files)
NOTES: tuple[HostRule, ...] = (kubelet_unreadable,)
