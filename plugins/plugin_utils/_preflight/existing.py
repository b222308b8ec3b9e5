# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for software on a host that is in use: packages, other Kubernetes distributions.

One setting decides about packages (cluster_existing_packages), one about apt sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._problem import Problem
from ...module_utils._versions import compare_versions
from ...module_utils._words import listing
from .model import Cluster, HostRule, Reading

SETTING = "cluster_existing_packages"
CONTAINERD, KUBERNETES, TOOLKIT = "containerd", "Kubernetes", "container toolkit"
REFUSE, KEEP, REPLACE = "refuse", "keep", "replace"
# Container engines that use the same containerd.
_CONTAINER_ENGINES = ("docker-ce", "docker-ee", "moby-engine", "nvidia-docker2")
# How to remove other distributions, by what was found on the host.
_REMOVED_BY = {
    "k3s": "k3s-uninstall.sh or k3s-agent-uninstall.sh",
    "rke2": "rke2-uninstall.sh",
    "k0s": "k0s stop && k0s reset",
    "microk8s": "snap remove --purge microk8s",
    "minikube": "minikube delete --all --purge",
}


def version_to_install(installed: str, wanted: str, minimum: str, policy: str) -> str:
    """Return the version to install: the existing one if it is kept and new enough, else the wanted one."""
    return installed if policy == KEEP and installed and _suffices(installed, minimum) else wanted


def packages(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check unmanaged package versions. On a finished node, an older version is from an earlier run."""
    installed, policy = reading.facts["installed"], reading.settings["existing_packages"]
    if policy == REPLACE:
        return
    engine = next((name for name in _CONTAINER_ENGINES if name in installed), "")
    for component, entry in reading.settings["packages"].items():
        wanted = _of_distribution(entry["version"], str(reading.facts["os"]["key"]))
        there = {name: installed[name] for name in entry["names"] if name in installed}
        other = {name: version for name, version in there.items() if wanted and version != wanted}
        in_use = [engine] * bool(engine and component == CONTAINERD) + _held(reading, other)
        newer = any(compare_versions(version, wanted) > 0 for version in other.values())
        if not other or (policy == REFUSE and not newer and not in_use):
            continue
        if component == TOOLKIT and not reading.facts["gpus"]:
            continue
        # A separate rule checks the kubelet's version.
        if reading.finished and (component == KUBERNETES or not newer):
            continue
        suffices = bool(entry["minimum"]) and all(_suffices(each, entry["minimum"]) for each in other.values())
        if policy == KEEP and suffices:
            continue
        shown = listing(f"{name} {version}" for name, version in other.items())
        yield reading.problem(
            "package_version_differs",
            f"{shown} {'is' if len(other) == 1 else 'are'} installed instead of {wanted}"
            + (f" ({listing(in_use)})" if in_use else ""),
            "dpkg",
            "Packages that this collection does not manage are not replaced or downgraded unless you ask for it",
            f"Keep them ({SETTING}=keep: {entry['minimum']} or newer is enough), or let them be replaced "
            f"({SETTING}=replace)"
            if suffices
            else f"Let them be replaced ({SETTING}=replace), or remove them yourself"
            + (f"; they can't be kept, because {entry['minimum']} or newer is needed" if entry["minimum"] else ""),
            **({SETTING: KEEP} if suffices else {}),
        )


def other_clusters(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    for name in () if reading.finished else reading.facts["other_clusters"]:
        yield reading.problem(
            "other_cluster_installed",
            f"{name} is installed on this host",
            "systemd units, /var/lib, /snap",
            "Both would use the same ports, packet filter rules and network configuration, and its pods would stop",
            "Use another machine, or move its workloads elsewhere and remove it "
            f"({_REMOVED_BY.get(name, 'its own way')})",
        )


def _held(reading: Reading, names: Mapping[str, str]) -> list[str]:
    return [f"{name} is held" for name in names if name in reading.facts["held"]]


def _suffices(installed: str, minimum: str) -> bool:
    """Compare the version without epoch and revision: 5:2.3.6-1~debian.12~bookworm is 2.3.6."""
    return compare_versions(re.sub(r"\A[0-9]+:|[-+~].*", "", installed), minimum) >= 0


def _of_distribution(version: Any, distribution: str) -> str:
    if isinstance(version, Mapping):
        return str(version.get(distribution, version.get("any", "")))
    return str(version)


RULES: tuple[HostRule, ...] = (packages, other_clusters)
