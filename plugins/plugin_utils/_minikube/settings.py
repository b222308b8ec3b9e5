# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve minikube's settings that depend on others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._minikube.profile import version_numbers

# minikube's networks, and those of its services (site/content/en/docs/handbook/vpn_and_proxy.md of minikube v1.38.1)
# and pods.
_NETWORKS = ("192.168.59.0/24", "192.168.49.0/24", "192.168.39.0/24", "10.96.0.0/12", "10.244.0.0/16")
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./<>~-]+", re.ASCII)
_SPECIAL = re.compile(r'(["\\])')
_LOCAL = ("localhost", "127.0.0.1")


def resolve_settings(declared: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings: declared ones, or the meaning of ``auto`` and empty ones. ``table`` is minikube's."""
    on_host = declared["driver"] == "none"
    options = ["--force-systemd=true"] * on_host + list(map(str, declared["options"]))
    engine = "containerd" if on_host else "docker"
    runtime = engine if declared["container_runtime"] == "auto" else declared["container_runtime"]
    automatic = "all" if runtime == "docker" else "none"
    gpus = automatic if declared["gpus"] == "auto" else declared["gpus"]
    home = "/root" if declared["user"] == "root" else f"~{declared['user']}"
    newest = table.get(declared["version"], {}).get("kubernetes", "")
    settings = {
        **declared,
        "kubernetes_version": declared["kubernetes_version"] or newest,
        "container_runtime": runtime,
        "gpus": gpus,
        "home": declared["home"] or home,
        "options": options,
        "unit_options": " ".join(map(_in_unit, options)),
        "no_proxy": list(dict.fromkeys([*declared["no_proxy"], *_LOCAL, *_NETWORKS])),
        "engine": engine,
        "gives_gpus": on_host or gpus != "none",
        "needs_tunnel": not on_host
        and declared["api_delegate"] != declared["host"]
        and declared["connection"] != "local",
    }
    return {**settings, "warnings": list(_warnings(settings, newest))}


def _in_unit(word: str) -> str:
    """Escape a word of a command for a systemd unit, in which %, $ and backslashes are special (systemd.service(5))."""
    if _PLAIN.fullmatch(word):
        return word
    return '"' + _SPECIAL.sub(r"\\\1", word).replace("%", "%%").replace("$", "$$") + '"'


def _warnings(settings: Mapping[str, Any], newest: str) -> Iterator[str]:
    version, kubectl = settings["kubernetes_version"], settings["kubectl_version"]
    # validateKubernetesVersion in cmd/minikube/cmd/start.go of minikube v1.38.1.
    if newest and version_numbers(version) > version_numbers(newest) and "--force" not in settings["options"]:
        yield (
            f"minikube {settings['version']} knows Kubernetes up to {newest}, not {version}: each start, also the one "
            "at boot, asks GitHub whether that version exists, and fails without an answer. To avoid this, remove "
            "minikube_kubernetes_version before the profile is created."
        )
    if version and abs(_minor(version) - _minor(kubectl)) > 1:
        yield (
            f"kubectl {kubectl} is not meant for Kubernetes {version}: it supports servers that differ by at most one "
            "minor version. Set cluster_kubernetes_version to a nearer version, or use minikube kubectl."
        )


def _minor(version: str) -> int:
    return [*version_numbers(version), 0, 0][1]
