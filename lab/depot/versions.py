"""What the depot builds of what upstream.lock has: the product's table chooses, and can choose nothing else."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import yaml

from lab import paths
from lab.depot.cache import DepotError
from upstream.lock import load

_TABLE = paths.REPOSITORY / "roles" / "cluster" / "vars" / "main" / "versions.yml"

DEFAULT_KUBERNETES = "1.36.5"

# Each containerd names the runc it is tested with in script/setup/runc-version of its source.
RUNC = {"2.3.6": "v1.5.1"}

# Each Docker Engine: the last beta of the module that its tag was made from, which has no version of its own.
DOCKER = {"29.8.2": "v2.0.0-beta.24"}

# The container check of the network: its own version number, whatever Kubernetes it comes with.
AGNHOST = "2.63.0"
AGNHOST_SOURCE = "1.36.4"

# The last Kubernetes that ran Docker's containers itself.
DOCKERSHIM_SOURCE = "1.23.17"

FLANNEL_CNI_SOURCE = "v0.9.1"
DISTRIBUTION = "v3.1.2"
HELM = "v3.22.0"
# That of the device plugin.
GO_NVML = "v0.13.0-1"
CHECK_IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"

# These can't be had as Go modules everywhere; the nearest that can speaks the same CRI.
_CRICTL_INSTEAD = {"v1.35.0": "v1.36.0", "v1.37.0": "v1.36.0"}


@lru_cache
def table() -> dict[str, Any]:
    """Return the product's table of versions."""
    loaded: dict[str, Any] = yaml.safe_load(_TABLE.read_text())
    versions: dict[str, Any] = loaded["cluster_versions"]
    return versions


def kubernetes() -> list[str]:
    """Return the Kubernetes versions that the lock has, oldest minor first."""
    found = [
        version.rsplit("-", 1)[0]
        for name, repository in load().repositories.items()
        if name.startswith("kubernetes-")
        for version in repository.versions("kubelet")
    ]
    return list(dict.fromkeys(found))


def check_kubernetes(version: str) -> None:
    """Raise DepotError for a Kubernetes version that the lock does not have."""
    known = kubernetes()
    if version not in known:
        raise DepotError(f"Error while choosing Kubernetes {version}: upstream.lock has {', '.join(known)}.")


def check_image(reference: str) -> None:
    """Raise DepotError for an image of the product that the lock does not have."""
    if reference not in load().images:
        raise DepotError(f"Error while choosing the image {reference}: upstream.lock does not have it.")


def driver_versions() -> list[str]:
    """Return the NVIDIA driver versions that the product may ask for."""
    return list(table()["nvidia_driver"])


def minikube() -> str:
    """Return the newest version of minikube that the product may ask for."""
    return str(list(table()["minikube"])[-1])


def crictl(tag: str) -> str:
    """Return the tag of cri-tools that is built for this one."""
    return _CRICTL_INSTEAD.get(tag, tag)


def minor(version: str) -> str:
    """Return v1.36 for 1.36.4."""
    return "v" + ".".join(version.split(".")[:2])
