"""The lab's replacement of NVIDIA's DCGM exporter: a program that reads the simulated NVML."""

from __future__ import annotations

from pathlib import Path

from lab.depot import cache, golang, images, oci, recipes, versions
from lab.depot.oci import Settings

_HERE = Path(__file__).resolve().parent
_PROGRAM = "/usr/bin/dcgm-exporter"
_LABELS = {
    "org.opencontainers.image.title": "dcgm-exporter-stand-in",
    "org.opencontainers.image.description": "Stands in for NVIDIA's DCGM exporter in a lab with simulated GPUs.",
}


def reference() -> str:
    """Return the name of the real image, which nodes pull."""
    return f"nvcr.io/nvidia/k8s/dcgm-exporter:{versions.table()['dcgm_exporter']}"


def build() -> None:
    """Build the program and store the image; existing ones are reused. Raises DepotError."""
    recipe = recipes.dcgm_exporter()
    golang.provide(recipe)
    versions.check_image(reference())
    settings = Settings((_PROGRAM,), (), "", {}, _LABELS)
    code = cache.tree_digest(_HERE / "images.py", _HERE / "oci.py", _HERE / "debian.py")
    key = cache.digest(code, reference(), recipe.key, settings)
    files: dict[str, oci.Content] = {_PROGRAM: recipe.program("dcgm-exporter")}
    images.Image(reference(), key, files, settings, on_base=True).build()
