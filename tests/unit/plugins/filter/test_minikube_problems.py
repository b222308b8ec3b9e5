# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.minikube import minikube_problems, minikube_settings

TABLE = {"1.38.1": {"sha256": "0" * 64, "kubernetes": "1.35.1"}}
ON_HOST = {
    "version": "1.38.1",
    "sha256": "",
    "kubernetes_version": "1.35.1",
    "profile": "minikube",
    "driver": "none",
    "container_runtime": "containerd",
    "gpus": "none",
    "user": "root",
}
IN_DOCKER = {**ON_HOST, "driver": "docker", "container_runtime": "docker", "user": "ada"}


def said(settings: dict[str, str], profile: str = "absent", cluster: bool = False, hardened: str = "0") -> list[str]:
    return minikube_problems(settings, TABLE, profile, cluster, hardened)


# Cases of TestValidateGPUs in cmd/minikube/cmd/start_test.go of minikube v1.38.1.
@pytest.mark.parametrize(
    ("settings", "runtime", "gpus", "valid"),
    [
        (IN_DOCKER, "docker", "all", True),
        (IN_DOCKER, "docker", "nvidia", True),
        (IN_DOCKER, "docker", "nvidia.com", True),
        (IN_DOCKER, "docker", "none", True),
        (IN_DOCKER, "containerd", "none", True),
        (IN_DOCKER, "containerd", "all", False),
        (IN_DOCKER, "containerd", "nvidia.com", False),
        (ON_HOST, "containerd", "none", True),
        (ON_HOST, "containerd", "all", False),
        (ON_HOST, "containerd", "nvidia.com", False),
    ],
)
def test_gpus_require_driver_and_runtime_docker(settings: dict[str, str], runtime: str, gpus: str, valid: bool) -> None:
    found = said({**settings, "container_runtime": runtime, "gpus": gpus})
    assert (found == []) == valid
    assert valid or f"refuses --gpus={gpus} with the driver {settings['driver']}" in found[0]


@pytest.mark.parametrize(
    ("settings", "found", "words"),
    [
        ({"version": "1.0.0"}, {}, "minikube 1.0.0 is not in the table of versions: set minikube_version to 1.38.1"),
        ({"version": "1.0.0", "sha256": "1" * 64}, {}, ""),
        ({"version": "1.0.0", "sha256": "1" * 64, "kubernetes_version": ""}, {}, "set minikube_kubernetes_version"),
        ({"profile": "lab"}, {}, "supports only the profile minikube, not lab"),
        ({"container_runtime": "docker"}, {}, "runs in the host's containerd"),
        ({"user": "ada"}, {}, "belongs to root"),
        ({}, {"cluster": True}, "is a node of a cluster that minikube did not create"),
        ({}, {"cluster": True, "profile": "stopped"}, ""),
        ({}, {"hardened": "2"}, ""),
        (IN_DOCKER, {"hardened": "2"}, ""),
        ({**IN_DOCKER, "gpus": "all"}, {"hardened": "2"}, "net.core.bpf_jit_harden is 2"),
        ({**IN_DOCKER, "gpus": "all"}, {"hardened": ""}, ""),
        ({**IN_DOCKER, "user": "root"}, {}, "driver docker refuses root"),
        ({**IN_DOCKER, "profile": "lab"}, {"cluster": True}, ""),
    ],
)
def test_problems_of_minikube_have_a_remedy(settings: dict[str, str], found: dict[str, Any], words: str) -> None:
    problems = said({**ON_HOST, **settings}, **found)
    assert len(problems) == (1 if words else 0)
    assert not words or words in problems[0]


DECLARED = {
    "version": "1.38.1",
    "driver": "none",
    "kubernetes_version": "",
    "kubectl_version": "1.36.4",
    "container_runtime": "auto",
    "gpus": "auto",
    "user": "root",
    "home": "",
    "options": ["--a=b"],
    "no_proxy": ["127.0.0.1", "gpu1"],
    "host": "gpu1",
    "api_delegate": "localhost",
    "connection": "",
}
RESOLVED = {
    "unit_options": "--force-systemd=true --a=b",
    "kubernetes_version": "1.35.1",
    "container_runtime": "containerd",
    "gpus": "none",
    "home": "/root",
    "engine": "containerd",
    "options": ["--force-systemd=true", "--a=b"],
    "no_proxy": [
        *("127.0.0.1", "gpu1", "localhost"),
        *("192.168.59.0/24", "192.168.49.0/24", "192.168.39.0/24", "10.96.0.0/12", "10.244.0.0/16"),
    ],
    "gives_gpus": True,
    "needs_tunnel": False,
    "warnings": [],
}
DOCKER = {"driver": "docker", "user": "ada"}
OF_DOCKER = {
    "container_runtime": "docker",
    "gpus": "all",
    "home": "~ada",
    "engine": "docker",
    "options": ["--a=b"],
    "unit_options": "--a=b",
    "needs_tunnel": True,
}


@pytest.mark.parametrize(
    ("declared", "resolved"),
    [
        ({}, {}),
        ({"home": "/srv"}, {"home": "/srv"}),
        ({"gpus": "all"}, {"gpus": "all"}),
        (DOCKER, OF_DOCKER),
        ({**DOCKER, "gpus": "none"}, {**OF_DOCKER, "gpus": "none", "gives_gpus": False}),
        ({**DOCKER, "gpus": "nvidia.com"}, {**OF_DOCKER, "gpus": "nvidia.com"}),
        (
            {**DOCKER, "container_runtime": "containerd"},
            {**OF_DOCKER, "container_runtime": "containerd", "gpus": "none", "gives_gpus": False},
        ),
        # Docker's network is only reachable from its host.
        ({**DOCKER, "api_delegate": "gpu1"}, {**OF_DOCKER, "needs_tunnel": False}),
        ({**DOCKER, "connection": "local"}, {**OF_DOCKER, "needs_tunnel": False}),
    ],
)
def test_default_settings_follow_from_the_driver(declared: dict[str, Any], resolved: dict[str, Any]) -> None:
    assert minikube_settings({**DECLARED, **declared}, TABLE) == {**DECLARED, **declared, **RESOLVED, **resolved}


@pytest.mark.parametrize(
    ("declared", "version", "words"),
    [
        ({}, "1.35.1", []),
        ({"kubernetes_version": "1.34.4", "kubectl_version": "1.35.8"}, "1.34.4", []),
        ({"kubernetes_version": "1.36.4"}, "1.36.4", ["knows Kubernetes up to 1.35.1, not 1.36.4: each start"]),
        ({"kubernetes_version": "1.36.4", "options": ["--force"]}, "1.36.4", []),
        ({"kubectl_version": "1.37.1"}, "1.35.1", ["kubectl 1.37.1 is not meant for Kubernetes 1.35.1"]),
        ({"kubernetes_version": "1.34.0"}, "1.34.0", ["kubectl 1.36.4 is not meant for Kubernetes 1.34.0"]),
        # The Kubernetes version of another minikube release is not in the table.
        ({"version": "1.39.0"}, "", []),
        ({"version": "1.39.0", "kubernetes_version": "1.36.4"}, "1.36.4", []),
    ],
)
def test_default_kubernetes_is_the_newest_supported_by_minikube(
    declared: dict[str, Any], version: str, words: list[str]
) -> None:
    settings = minikube_settings({**DECLARED, **declared}, TABLE)
    assert settings["kubernetes_version"] == version
    assert len(settings["warnings"]) == len(words)
    assert all(part in said for part, said in zip(words, settings["warnings"], strict=True))
