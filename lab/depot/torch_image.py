"""The image for training in a lab: Debian's own PyTorch, which computes on CPUs and talks gloo."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, debian, oci, registry
from lab.depot.oci import Layer, Settings

REFERENCE = "ghcr.io/gpulab/torch:1.13.1-debian12"
_SUITE = "bookworm"
_PACKAGES = ("python3-torch", "python3-numpy", "python3-packaging", "ca-certificates")
_HERE = Path(__file__).resolve().parent
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
    """Make the image, as a single layer, and store it, unless the registry has it, made from the same.

    Raises DepotError.
    """
    if is_stored():
        return
    with cache.lock("depot"), registry.writable() as target:
        if not is_stored():
            with progress.step(f"Image {REFERENCE}"):
                target.push(REFERENCE, [_layer()], _SETTINGS)
                cache.replace_text(_stamp(), _key())


def is_stored() -> bool:
    """Say whether the registry has the image, made from the same."""
    stamp = _stamp()
    return registry.holds(REFERENCE) and stamp.is_file() and stamp.read_text() == _key()


def _layer() -> Layer:
    directory = paths.component_dir("image-torch", _SUITE)
    if cache.key_of(directory) != _key():
        with cache.fresh(directory, _key()) as work:
            root = work / "root"
            debian.root_filesystem(root, _SUITE, _PACKAGES)
            for name in _LEFT_OUT:
                shutil.rmtree(root / name, ignore_errors=True)
            made = oci.tree_layer(work / "layer", root)
            shutil.rmtree(root)
            (work / "layer.json").write_text(json.dumps({"digest": made.digest, "tar_digest": made.tar_digest}))
    return Layer(directory / "layer", **json.loads((directory / "layer.json").read_text()))


def _key() -> str:
    return cache.digest(REFERENCE, cache.tree_digest(_HERE / "torch_image.py", _HERE / "debian.py", _HERE / "oci.py"))


def _stamp() -> Path:
    return paths.registry() / "made" / "torch-image.key"
