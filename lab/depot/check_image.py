"""The replacement of NVIDIA's CUDA sample, built from a context that lab.gpusim writes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab import gpusim, paths
from lab.depot import cache, tools, versions
from lab.depot.registry import Registry, holds

_LOCAL = "localhost/gpulab-check"


def _stamp() -> Path:
    return paths.registry() / "made" / "check-image.key"


def is_stored() -> bool:
    """Return whether the registry has the image, built from the same sources."""
    stamp = _stamp()
    return holds(versions.CHECK_IMAGE) and stamp.is_file() and stamp.read_text() == gpusim.key()


def store(registry: Registry) -> None:
    """Build the context with podman and store the image. Raises DepotError."""
    with tempfile.TemporaryDirectory(prefix="gpulab-check-") as work:
        context = gpusim.check_image(Path(work, "context"))
        local = f"{_LOCAL}:{gpusim.key()}"
        doing = f"building {versions.CHECK_IMAGE}"
        tools.run(["podman", "build", "--quiet", "--tag", local, context], doing=doing, log="podman")
        target = f"docker://{registry.address}/{versions.CHECK_IMAGE}"
        try:
            argv = ["podman", "push", "--quiet", "--tls-verify=false", local, target]
            tools.run(argv, doing=f"storing {versions.CHECK_IMAGE}", log="podman")
        finally:
            tools.run(["podman", "rmi", local], doing="removing the local copy of the check image", log="podman")
    cache.replace_text(_stamp(), gpusim.key())
