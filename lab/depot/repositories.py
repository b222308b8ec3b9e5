"""The apt repositories below www/, each where its upstream has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import paths
from lab.depot import apt, cache, signing
from lab.depot.signing import Signer

_HERE = Path(__file__).resolve().parent

KUBERNETES = "pkgs.k8s.io/core:/stable:"
DOCKER = "download.docker.com/linux"
CONTAINER_TOOLKIT = "nvidia.github.io/libnvidia-container"
CUDA = "developer.download.nvidia.com/compute/cuda/repos"
# Debian 13's repository has a newer key, and with it another file.
_CUDA_KEYS = ("3bf863cc.pub", "8793F200.pub")


@dataclass(frozen=True)
class Repository:
    """One directory below www/: its files, the key of what they are made from, and how they are written."""

    below: str
    key: str
    write: Callable[[Path, Signer], None]

    @property
    def is_written(self) -> bool:
        """Say whether the directory is there, made from the same."""
        return cache.key_of(paths.www() / self.below) == self.key

    def build(self, signer: Signer) -> None:
        """Write the directory in one move."""
        with cache.fresh(paths.www() / self.below, self.key) as work:
            self.write(work, signer)


def _key(*inputs: object) -> str:
    code = cache.tree_digest(_HERE / "repositories.py", _HERE / "apt.py")
    key = signing.armored().read_text() if signing.is_made() else ""
    return cache.digest(code, key, *inputs)


def kubernetes(minor: str, debs: Mapping[Path, str]) -> Repository:
    """The repository of one Kubernetes minor version; `debs` gives the key of each package."""

    def write(root: Path, signer: Signer) -> None:
        apt.write_flat(root, debs, signer, label=f"isv:kubernetes:core:stable:{minor}", below="amd64")
        _copy_key(root / "Release.key")

    return Repository(f"{KUBERNETES}/{minor}/deb", _key(minor, sorted(debs.items())), write)


def docker(system: str, suites: Mapping[str, Mapping[Path, str]]) -> Repository:
    """Docker's repository for debian or ubuntu, with a suite per codename."""

    def write(root: Path, signer: Signer) -> None:
        apt.write_suites(root, suites, signer, label="Docker")
        _copy_key(root / "gpg")

    contents = [(codename, sorted(debs.items())) for codename, debs in suites.items()]
    return Repository(f"{DOCKER}/{system}", _key(system, contents), write)


def container_toolkit(debs: Mapping[Path, str]) -> Repository:
    """NVIDIA's repository of the container toolkit."""

    def write(root: Path, signer: Signer) -> None:
        apt.write_flat(root / "stable" / "deb" / "amd64", debs, signer, label="NVIDIA container toolkit")
        _copy_key(root / "gpgkey")

    return Repository(CONTAINER_TOOLKIT, _key(sorted(debs.items())), write)


def cuda(distribution: str, debs: Mapping[Path, str]) -> Repository:
    """NVIDIA's CUDA repository of one distribution."""

    def write(root: Path, signer: Signer) -> None:
        apt.write_flat(root, debs, signer, label="NVIDIA CUDA")
        for name in _CUDA_KEYS:
            _copy_key(root / name)

    return Repository(f"{CUDA}/{distribution}/x86_64", _key(distribution, sorted(debs.items())), write)


def _copy_key(path: Path) -> None:
    path.write_bytes(signing.armored().read_bytes())
