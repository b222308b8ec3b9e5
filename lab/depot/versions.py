"""Versions of upstream.lock that the depot builds, as the product's version table selects them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import yaml

from lab import paths
from lab.depot.cache import DepotError
from upstream.lock import load

_TABLE = paths.REPOSITORY / "roles" / "cluster" / "vars" / "main" / "versions.yml"

DEFAULT_KUBERNETES = "1.36.5"

# The runc with which each containerd is tested (script/setup/runc-version of its source).
RUNC = {"2.3.6": "v1.5.1"}

# The last beta of the module from which each Docker Engine's tag was made; the module has no tag for it.
DOCKER = {"29.8.2": "v2.0.0-beta.24"}

# The image for network checks: it has its own version number, independent of its Kubernetes release.
AGNHOST = "2.63.0"
AGNHOST_SOURCE = "1.36.4"

# The last Kubernetes with support for Docker.
DOCKERSHIM_SOURCE = "1.23.17"

FLANNEL_CNI_SOURCE = "v0.9.1"
DISTRIBUTION = "v3.1.2"
HELM = "v3.22.0"
RCLONE = "v1.76.0"
# As in the device plugin.
GO_NVML = "v0.13.0-1"
CHECK_IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"

# Not available everywhere as Go modules; the nearest available version uses the same CRI.
_CRICTL_INSTEAD = {"v1.35.0": "v1.36.0", "v1.37.0": "v1.36.0"}


@lru_cache
def table() -> dict[str, Any]:
    """Return the product's table of versions."""
    loaded: dict[str, Any] = yaml.safe_load(_TABLE.read_text())
    versions: dict[str, Any] = loaded["cluster_versions"]
    return versions


def kubernetes() -> list[str]:
    """Return the Kubernetes versions in the lock, oldest minor version first."""
    found = [
        version.rsplit("-", 1)[0]
        for name, repository in load().repositories.items()
        if name.startswith("kubernetes-")
        for version in repository.versions("kubelet")
    ]
    return list(dict.fromkeys(found))


def check_kubernetes(version: str) -> None:
    """Raise DepotError for a Kubernetes version that is not in the lock."""
    known = kubernetes()
    if version not in known:
        raise DepotError(f"Error while choosing Kubernetes {version}: upstream.lock has {', '.join(known)}.")


def check_image(reference: str) -> None:
    """Raise DepotError for an image of the product that is not in the lock."""
    if reference not in load().images:
        raise DepotError(f"Error while choosing the image {reference}: upstream.lock does not have it.")


def driver_versions() -> list[str]:
    """Return the NVIDIA driver versions that the product may install."""
    return list(table()["nvidia_driver"])


def minikube() -> str:
    """Return the newest version of minikube that the product may install."""
    return str(list(table()["minikube"])[-1])


def crictl(tag: str) -> str:
    """Return the tag of cri-tools that is built for this tag."""
    return _CRICTL_INSTEAD.get(tag, tag)


def minor(version: str) -> str:
    """Return the minor version of a release: v1.36 for 1.36.4."""
    return "v" + ".".join(version.split(".")[:2])
