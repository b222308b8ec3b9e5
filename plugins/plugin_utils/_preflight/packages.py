# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules about package repositories, their keys, and packages that are in the way."""

from __future__ import annotations

from collections.abc import Iterator

from ...module_utils._problem import Problem
from .existing import REPLACE, SETTING, kept_version
from .model import Cluster, Facts, HostRule, Reading, listing

# What distributions call them; containerd.io can't be installed next to them.
_FOREIGN_RUNTIMES = ("containerd", "docker.io", "runc")
# How the settings of each repository begin.
_SETTINGS = {
    "Kubernetes": "kubeadm",
    "containerd": "containerd",
    "NVIDIA container toolkit": "nvidia_container_toolkit",
    "NVIDIA driver": "nvidia_driver",
}


def repositories(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    for repository in reading.facts["repositories"]:
        label = f"{repository['name']} ({repository['uri']})"
        if repository["error"]:
            yield reading.problem(
                "repository_unreadable",
                f"The repository {repository['name']} can't be read: {repository['error']}",
                repository["uri"],
                "Packages are installed from it",
                "Check the address, DNS and the way out of this host; set cluster_http_proxy, or name a mirror",
            )
        else:
            yield from _key(reading, repository)
        for package, version in repository["missing"].items():
            if _is_kept(reading, package):
                continue
            known = repository["available"].get(package, [])
            yield reading.problem(
                "package_not_offered",
                f"The repository {label} does not hold {package} {version}",
                repository["uri"],
                "Exactly this version is pinned",
                f"It holds {listing(known[:12]) or 'no version of it'}. Choose one of those, or bring the mirror up to "
                "date",
            )
        for conflict in repository["conflicts"]:
            # One that names further addresses can't be turned off as a whole.
            if reading.settings["existing_sources"] == "take_over" and not conflict["shared"]:
                continue
            yield reading.problem(
                "apt_source_twice",
                f"Another apt source names the repository {label}",
                f"{conflict['file']} line {conflict['line']}",
                "apt stops working when one address has two keys (Conflicting values set for option Signed-By)",
                "Split that entry, which names further addresses, and run again"
                if conflict["shared"]
                else "Let it be commented out (cluster_existing_sources=take_over), or remove it; this collection "
                "brings its own",
                **({} if conflict["shared"] else {"cluster_existing_sources": "take_over"}),
            )


def _is_kept(reading: Reading, package: str) -> bool:
    """Whether another version of it is there, and is to stay."""
    installed = str(reading.facts["installed"].get(package, ""))
    for entry in reading.settings["packages"].values():
        if package in entry["names"] and installed and entry["minimum"]:
            return kept_version(installed, "", entry["minimum"], reading.settings["existing_packages"]) == installed
    return False


def runtimes(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    installed = reading.facts["installed"]
    foreign = [f"{package} {installed[package]}" for package in _FOREIGN_RUNTIMES if package in installed]
    # Docker's containers would be lost with it.
    replaced = reading.settings["existing_packages"] == REPLACE and "docker.io" not in installed
    if foreign and not replaced:
        yield reading.problem(
            "container_runtime_installed",
            f"A container runtime of the distribution is installed: {listing(foreign)}",
            "dpkg",
            "containerd.io can't be installed next to it, and what runs in it would stop",
            "Move what runs in it elsewhere and remove these packages"
            + ("" if "docker.io" in installed else f", or let containerd.io replace them ({SETTING}=replace)"),
        )


def _key(reading: Reading, repository: Facts) -> Iterator[Problem]:
    key = repository.get("key") or {}
    setting = _SETTINGS.get(repository["name"], "")
    what, why, do = {
        "unexpected": (
            "is not the expected one",
            "Whoever has the key of a repository can install anything on this host",
            f"Compare it with what the repository's owner publishes; name it in {setting}_repository_key_fingerprints "
            "if it is right, as that of a mirror with a key of its own",
        ),
        "expired": (
            "has expired",
            "apt refuses what it signs",
            "Check the host's clock. If that is right, the repository's owner has to publish a renewed key, or the "
            "mirror has to fetch it",
        ),
        "unreachable": (
            "can't be read",
            "apt accepts packages only under this key",
            f"Check the address; a mirror ({setting}_repository_url) has to hold this file, too",
        ),
        "unreadable": (
            "can't be read",
            "apt accepts packages only under this key",
            "Check what answers at this address; a proxy may do so in its place",
        ),
    }.get(key.get("kind", ""), ("", "", ""))
    if what:
        yield reading.problem(
            f"repository_key_{key['kind']}",
            f"The key of the repository {repository['name']} {what}: {key['cause']}",
            key["url"],
            why,
            do,
        )


RULES: tuple[HostRule, ...] = (repositories, runtimes)
