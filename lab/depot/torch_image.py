"""The image for training in a lab: Debian's own PyTorch, which computes on CPUs and talks gloo."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.depot.debian_image import DebianImage
from lab.depot.oci import Settings

REFERENCE = "ghcr.io/gpulab/torch:1.13.1-debian12"
_SUITE = "bookworm"
_PACKAGES = ("python3-torch", "python3-numpy", "python3-packaging", "ca-certificates")
# What only those need who compile against PyTorch.
_LEFT_OUT = ("usr/include", "usr/share/cmake", "usr/share/fonts", "usr/share/gcc")
_SETTINGS = Settings(
    command=("python3",),
    environment={"PYTHONUNBUFFERED": "1"},
    labels={
        "org.opencontainers.image.title": "torch",
        "org.opencontainers.image.description": f"PyTorch from Debian {_SUITE}, without CUDA, for a lab.",
    },
)


def build() -> None:
    """Make the image and store it, unless the registry has it, made from the same. Raises DepotError."""
    _IMAGE.build()


def is_stored() -> bool:
    """Say whether the registry has the image, made from the same."""
    return _IMAGE.is_stored


def _leave_out(root: Path) -> None:
    for name in _LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)


def _key() -> str:
    return _IMAGE.key


_IMAGE = DebianImage(REFERENCE, "torch", _SUITE, _PACKAGES, _SETTINGS, Path(__file__).resolve(), _leave_out)
