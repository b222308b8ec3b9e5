"""The image of a driver-installer with the simulated driver, for hosts whose packages are not changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, deb, images, oci, registry, versions
from lab.depot.oci import Settings
from lab.gpusim import library
from lab.gpusim.driver_debs import driver_part, key

_REPOSITORY = "ghcr.io/gpulab/driver-installer"
_SUITE = "bookworm"
_KERNEL = "/usr/lib/nvidia-simulated/"
_MODPROBE = "/usr/lib/modprobe.d/nvidia-simulated.conf"
_FIRMWARE = "/usr/lib/firmware/"
# The archive has these files in one directory, without links to them.
_FLAT = ("/usr/bin/", "/usr/lib/x86_64-linux-gnu/")
_PARTS = ("library", "smi", "kernel-common", "dkms", "firmware", "modprobe")
_HERE = Path(__file__).resolve().parent
_RECIPE = paths.REPOSITORY / "examples" / "driver-installer"


def reference(version: str) -> str:
    """Return the image's name for a version of the driver."""
    return f"{_REPOSITORY}:{version}"


def build() -> None:
    """Store the image for each version of the driver; existing ones are reused. Raises DepotError."""
    for version in versions.driver_versions():
        if not _image(version, {}).is_stored:
            with cache.lock("depot"), registry.writable() as target:
                if not _image(version, {}).is_stored:
                    with progress.step(f"Image {reference(version)}"):
                        _image(version, dict(_files(version))).store(target)


def _image(version: str, files: dict[str, oci.Content]) -> images.Image:
    labels = {
        "org.opencontainers.image.title": "driver-installer",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.description": "Installs the simulated NVIDIA driver of a lab.",
    }
    settings = Settings(("/install",), (), "", {}, labels)
    code = cache.tree_digest(_HERE / "installer", _HERE / "installer_image.py", _RECIPE / "install")
    made_from = cache.digest(key(), code, version, settings)
    return images.Image(reference(version), made_from, files, settings, on_base=True)


def _files(version: str) -> Iterator[tuple[str, oci.Content]]:
    """Yield the image's files: the installer is the example's; module loader and driver are simulated."""
    archive = f"NVIDIA-Linux-x86_64-{version}"
    unpacked = f"/driver/{archive}"
    yield "/install", _RECIPE / "install"
    yield "/load-module", _HERE / "installer" / "load-module"
    yield f"/{archive}.run", f"#!/bin/sh\n# Stands in for NVIDIA's archive.\ncp -a {unpacked} .\n"
    yield f"{unpacked}/kernel/kernel", f"version={version}\nflavor=open\n"
    for name in _PARTS:
        for path, content in driver_part(library.driver(version), _SUITE, name).items():
            plain = content.content if isinstance(content, deb.File) else content
            if isinstance(plain, bytes):
                plain = plain.decode()
            if path.startswith(_KERNEL):
                yield f"{unpacked}/kernel/{path.removeprefix(_KERNEL)}", plain
            elif path == _MODPROBE:
                yield f"{unpacked}/modprobe.conf", plain
            elif path.startswith(_FIRMWARE):
                yield f"{unpacked}/firmware/{path.rpartition('/')[2]}", plain
            elif path.startswith(_FLAT) and not isinstance(plain, deb.Link):
                yield f"{unpacked}/{path.rpartition('/')[2]}", plain
