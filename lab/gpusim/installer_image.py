"""The image of a driver-installer: the simulated driver, for hosts whose packages are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lab import progress
from lab.depot import cache, deb, driver_debs, images, oci, registry, versions
from lab.depot.oci import Settings
from lab.gpusim import library
from lab.gpusim.driver_debs import driver_part

_REPOSITORY = "ghcr.io/gpulab/driver-installer"
_SUITE = "bookworm"
_KERNEL = "/usr/lib/nvidia-simulated/"
_MODPROBE = "/usr/lib/modprobe.d/nvidia-simulated.conf"
# Units belong to packages: here the pod loads the module.
_LEFT_OUT = ("/usr/lib/systemd/", "/usr/share/doc/")
_PARTS = ("library", "smi", "kernel-common", "dkms", "firmware", "modprobe")
_HERE = Path(__file__).resolve().parent


def reference(version: str) -> str:
    """The image's name for a version of the driver."""
    return f"{_REPOSITORY}:{version}"


def build() -> None:
    """Store the image for each version of the driver; what is there already costs nothing. Raises DepotError."""
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
    code = cache.tree_digest(_HERE / "installer", _HERE / "installer_image.py")
    key = cache.digest(driver_debs.key(), code, version, settings)
    return images.Image(reference(version), key, files, settings, on_base=True)


def _files(version: str) -> Iterator[tuple[str, oci.Content]]:
    yield "/install", _HERE / "installer" / "install"
    yield "/driver/version", f"{version}\n"
    yield "/driver/kernel/kernel", f"version={version}\nflavor=open\n"
    for name in _PARTS:
        for path, content in driver_part(library.driver(version), _SUITE, name).items():
            plain = content.content if isinstance(content, deb.File) else content
            if isinstance(plain, bytes):
                plain = plain.decode()
            if path.startswith(_KERNEL):
                yield f"/driver/kernel/{path.removeprefix(_KERNEL)}", plain
            elif path == _MODPROBE:
                yield "/driver/modprobe.conf", plain
            elif not path.startswith(_LEFT_OUT):
                yield f"/driver/root{path}", plain
