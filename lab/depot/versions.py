"""What the depot builds, in which versions: the product's own table decides, the rest follows from it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import yaml

from lab import paths
from lab.depot.cache import DepotError

_TABLE = paths.REPOSITORY / "roles" / "cluster" / "vars" / "main.yml"

DEFAULT_KUBERNETES = "1.36.4"

# Each containerd names the runc it is tested with in script/setup/runc-version of its source.
RUNC = {"2.3.6": "v1.5.1"}

# The container check of the network: its own version number, whatever Kubernetes it comes with.
AGNHOST = "2.63.0"
AGNHOST_SOURCE = "1.36.4"

FLANNEL_CNI_SOURCE = "v0.9.1"
DISTRIBUTION = "v3.1.2"
HELM = "v3.22.0"
CUDA_KEYRING = "1.1-1"
# Native to all drivers, to driver 580, and to newer drivers only (13.1).
CUDA_TOOLKITS = ("12.8.1", "12.9.1", "13.0.2", "13.1.1")
CHECK_IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"

# crictl 1.35.0 can't be had as a Go module everywhere; the next minor speaks the same CRI.
_CRICTL_INSTEAD = {"v1.35.0": "v1.36.0"}

# Distributions whose repositories the depot serves: key of the version table, Docker's directory and codename,
# NVIDIA's name of the CUDA repository.
DISTRIBUTIONS = (
    ("Debian 12", "debian", "bookworm", "debian12"),
    ("Debian 13", "debian", "trixie", "debian13"),
    ("Ubuntu 24.04", "ubuntu", "noble", "ubuntu2404"),
)


@lru_cache
def table() -> dict[str, Any]:
    """Return the product's table of versions."""
    loaded: dict[str, Any] = yaml.safe_load(_TABLE.read_text())
    versions: dict[str, Any] = loaded["_cluster_versions"]
    return versions


def kubernetes_packages(version: str) -> dict[str, str]:
    """Return the deb versions that belong to one Kubernetes version."""
    known: dict[str, Any] = table()["kubernetes"]
    if version not in known:
        raise DepotError(f"Error while choosing Kubernetes {version}: the version table knows {', '.join(known)}.")
    packages: dict[str, str] = known[version]["packages"]
    return packages


def containerd_packages() -> dict[str, dict[str, str]]:
    """Return, for each containerd version, its deb version per distribution."""
    return {version: entry["packages"] for version, entry in table()["containerd"].items()}


def toolkit_versions() -> dict[str, str]:
    """Return the deb version of each NVIDIA container toolkit version."""
    return {version: entry["packages"]["any"] for version, entry in table()["nvidia_container_toolkit"].items()}


def driver_versions() -> list[str]:
    """Return the NVIDIA driver versions."""
    return list(table()["nvidia_driver"])


def upstream(package_version: str) -> str:
    """Return the tag behind a deb version: 1.36.0-1.1 is v1.36.0."""
    return f"v{package_version.rsplit('-', 1)[0]}"


def crictl(package_version: str) -> str:
    """Return the tag of cri-tools that fills the package of this version."""
    tag = upstream(package_version)
    return _CRICTL_INSTEAD.get(tag, tag)


def minor(version: str) -> str:
    """Return v1.36 for 1.36.4."""
    return "v" + ".".join(version.split(".")[:2])
