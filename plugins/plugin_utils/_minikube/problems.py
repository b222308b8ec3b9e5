# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What prevents a host from running minikube as declared, checked before any change.

The rules are those of minikube v1.38.1, cmd/minikube/cmd/start.go: validateGPUs, validateBareMetal, validateUser and
validateSpecifiedDriver; and of its tutorial for NVIDIA GPUs (net.core.bpf_jit_harden).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# minikube supports --gpus only with this driver and runtime.
_GPUS = {("docker", "docker"): ("all", "nvidia", "nvidia.com", "none")}
_ONLY_PROFILE = "minikube"


def problems(
    settings: Mapping[str, Any], table: Mapping[str, Any], profile: str, cluster: bool, hardened: str
) -> Iterator[str]:
    """Yield sentences, each with what to do.

    ``settings`` are version, sha256, kubernetes_version, profile, driver, container_runtime, gpus and user. ``profile``
    is the state of the profile, ``cluster`` whether the host is in a kubeadm cluster, ``hardened`` the value of
    net.core.bpf_jit_harden.
    """
    driver, runtime, gpus = settings["driver"], settings["container_runtime"], settings["gpus"]
    if settings["version"] not in table and not settings["sha256"]:
        yield (
            f"minikube {settings['version']} is not in the table of versions: set minikube_version to "
            f"{' or '.join(table)}, or set minikube_sha256 to the checksum of its file."
        )
    if settings["sha256"] and not settings["kubernetes_version"]:
        yield (
            f"the newest Kubernetes that minikube {settings['version']} knows is not in the table of versions: set "
            "minikube_kubernetes_version."
        )
    if gpus not in _GPUS.get((driver, runtime), ("none",)):
        yield (
            f"minikube refuses --gpus={gpus} with the driver {driver} and the runtime {runtime}; it accepts this "
            "option only with the driver docker and the runtime docker: set minikube_driver=docker and "
            "minikube_container_runtime=docker, or minikube_gpus=none."
        )
    if driver == "none" and runtime != "containerd":
        yield "With the driver none, Kubernetes runs in the host's containerd: remove minikube_container_runtime."
    if driver == "none" and settings["profile"] != _ONLY_PROFILE:
        yield (
            f"minikube's driver none supports only the profile {_ONLY_PROFILE}, not {settings['profile']}: remove "
            "minikube_profile, or set minikube_driver=docker."
        )
    if driver == "none" and settings["user"] != "root":
        yield "Kubernetes on the host itself belongs to root: remove minikube_user, or set minikube_driver=docker."
    if driver == "docker" and settings["user"] == "root":
        yield (
            "minikube's driver docker refuses root: set minikube_user to an existing user, which is added to the "
            "group docker and is then as powerful as root."
        )
    if driver == "none" and cluster and profile == "absent":
        yield (
            "this host is a node of a cluster that minikube did not create: exclude the host, or remove that cluster "
            "(kubeadm reset)."
        )
    if driver == "docker" and gpus != "none" and hardened not in ("", "0"):
        yield (
            f"net.core.bpf_jit_harden is {hardened}; with this value, containers in minikube's container get no GPUs: "
            "set it to 0 in a file in /etc/sysctl.d, and run sysctl --system. It protects the kernel's JIT compiler."
        )
