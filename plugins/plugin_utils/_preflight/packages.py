# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for package repositories, their keys, and conflicting packages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .existing import KUBERNETES, REPLACE, SETTING, version_to_install
from .in_use import kept_version
from .model import Cluster, Facts, HostRule, Reading

# Names of the distributions' packages; containerd.io can't be installed next to them.
_FOREIGN_RUNTIMES = ("containerd", "docker.io", "runc")
# Repository -> prefix of its settings.
_SETTINGS = {
    "Kubernetes": "kubeadm",
    "containerd": "containerd",
    "NVIDIA container toolkit": "nvidia_container_toolkit",
    "NVIDIA driver": "nvidia_driver",
}
# Pattern of an error -> what to do if the host uses no proxy, and if it uses one.
_UNREAD = (
    (
        r"\b407\b|Proxy Authentication Required",
        "A proxy between this host and the repository requires a user and a password: set cluster_http_proxy and "
        "cluster_https_proxy to http://USER:PASSWORD@PROXY:PORT",
        "The proxy rejects this user or password: correct http://USER:PASSWORD@PROXY:PORT in cluster_http_proxy and "
        "cluster_https_proxy",
    ),
    (
        r"\b401\b",
        "The repository requires a user and a password: set cluster_apt_credentials",
        "The repository requires a user and a password: set cluster_apt_credentials",
    ),
    (
        r"\b403\b|Forbidden",
        "The server or a proxy in between does not let this host read the address: add the host to the mirror's "
        "permissions (cluster_apt_credentials if it requires a user), or the server to the proxy's allow list",
        "The proxy does not let this host read the address, or the server does not: add the server to the proxy's "
        "allow list, leave it out with cluster_no_proxy, or correct the mirror's permissions",
    ),
    (
        r"[Cc]onnection refused",
        "No server listens there: check the address and its port; if this host needs a proxy, set cluster_http_proxy "
        "and cluster_https_proxy",
        "No proxy listens at that address: check the host and the port in cluster_http_proxy and cluster_https_proxy, "
        "or leave the repository's server out with cluster_no_proxy",
    ),
    (
        r"[Nn]ame or service|name resolution|resolve|getaddrinfo",
        "Check the name in the address, and this host's DNS (resolvectl query NAME); if it needs a proxy, set "
        "cluster_http_proxy and cluster_https_proxy",
        "Check the proxy's name in cluster_http_proxy and cluster_https_proxy, and this host's DNS (resolvectl query "
        "NAME)",
    ),
    (
        r"CERTIFICATE_VERIFY|certificate",
        "Add the authority that signed the server's certificate to /usr/local/share/ca-certificates on this host, and "
        "run update-ca-certificates; check the host's clock",
        "If the proxy replaces certificates, add its authority to /usr/local/share/ca-certificates on this host, and "
        "run update-ca-certificates",
    ),
    (
        r"timed out|[Nn]etwork is unreachable|No route to host",
        "Let this host through to the address (firewall, security group, NAT); if it needs a proxy, set "
        "cluster_http_proxy and cluster_https_proxy, or configure a mirror",
        "Let this host through to the proxy (cluster_http_proxy, cluster_https_proxy), and the proxy to the address",
    ),
)


def _remedy(error: str, proxied: bool) -> str:
    said = re.sub(r"\S+://\S+", "", error)
    for pattern, direct, by_proxy in _UNREAD:
        if re.search(pattern, said):
            return by_proxy if proxied else direct
    return "Check the address, DNS and this host's internet access; set cluster_http_proxy, or configure a mirror"


def repositories(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    for repository in reading.facts["repositories"]:
        # The repository of another minor, which this run does not use.
        if repository["name"] == KUBERNETES and kept_version(cluster):
            continue
        label = f"{repository['name']} ({repository['uri']})"
        if repository["error"]:
            yield reading.problem(
                "repository_unreadable",
                f"The repository {repository['name']} can't be read: {repository['error']}",
                repository["uri"],
                "Packages are installed from it",
                _remedy(repository["error"], bool(reading.settings.get("proxied"))),
            )
        else:
            yield from _key(reading, repository)
        for package, version in repository["missing"].items():
            if _is_kept(reading, package):
                continue
            known = repository["available"].get(package, [])
            yield reading.problem(
                "package_not_offered",
                f"The repository {label} does not contain {package} {version}",
                repository["uri"],
                "Exactly this version is pinned",
                f"It contains {listing(known[:12]) or 'no version of it'}. Choose one of these versions, or update "
                "the mirror",
            )
        for conflict in repository["conflicts"]:
            # A source file with other addresses can't be disabled as a whole.
            if reading.settings["existing_sources"] == "take_over" and not conflict["shared"]:
                continue
            yield reading.problem(
                "apt_source_twice",
                f"Another apt source contains the repository {label}",
                f"{conflict['file']} line {conflict['line']}",
                "apt stops working when one address has two keys (Conflicting values set for option Signed-By)",
                "Split that entry, which contains other addresses, and run again"
                if conflict["shared"]
                else "Let it be commented out (cluster_existing_sources=take_over), or remove it; this collection "
                "adds its own source",
                **({} if conflict["shared"] else {"cluster_existing_sources": "take_over"}),
            )


def _is_kept(reading: Reading, package: str) -> bool:
    """Return whether another version of the package is installed and will be kept."""
    installed = str(reading.facts["installed"].get(package, ""))
    for entry in reading.settings["packages"].values():
        if package in entry["names"] and installed and entry["minimum"]:
            policy = reading.settings["existing_packages"]
            return version_to_install(installed, "", entry["minimum"], policy) == installed
    return False


def runtimes(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    installed = reading.facts["installed"]
    foreign = [f"{package} {installed[package]}" for package in _FOREIGN_RUNTIMES if package in installed]
    # Docker's containers would be lost if docker.io were replaced.
    replaced = reading.settings["existing_packages"] == REPLACE and "docker.io" not in installed
    if foreign and not replaced:
        yield reading.problem(
            "container_runtime_installed",
            f"A container runtime of the distribution is installed: {listing(foreign)}",
            "dpkg",
            "containerd.io can't be installed next to it, and its containers would stop",
            "Move its containers elsewhere and remove these packages"
            + ("" if "docker.io" in installed else f", or let containerd.io replace them ({SETTING}=replace)"),
        )


def _key(reading: Reading, repository: Facts) -> Iterator[Problem]:
    key = repository.get("key") or {}
    setting = _SETTINGS.get(repository["name"], "")
    what, why, do = {
        "unexpected": (
            "is not the expected one",
            "Whoever has the key of a repository can install anything on this host",
            "Compare it with the key that the repository's owner publishes; if it is correct, for example for a "
            f"mirror with its own key, add it to {setting}_repository_key_fingerprints",
        ),
        "expired": (
            "has expired",
            "apt refuses indexes that this key signs",
            "Check the host's clock. If it is correct, the repository's owner must publish a renewed key, or the "
            "mirror must fetch it",
        ),
        "unreachable": (
            "can't be read",
            "apt accepts packages only under this key",
            f"Check the address; a mirror ({setting}_repository_url) must also contain this file",
        ),
        "unreadable": (
            "can't be read",
            "apt accepts packages only under this key",
            "Check which server responds at this address; it may be a proxy instead of the repository",
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
