"""The lab's replacement of the GPU Operator: the program helm, and a stub image."""

from __future__ import annotations

from pathlib import Path

from lab import paths
from lab.depot import cache, golang, images, oci, recipes, versions
from lab.depot.oci import Settings

REFERENCE = "ghcr.io/gpulab/gpu-operator-stand-in:1"
CHART = paths.REPOSITORY / "lab" / "charts" / "gpu-operator-stand-in"
_HERE = Path(__file__).resolve().parent
_LABELS = {
    "org.opencontainers.image.title": "gpu-operator-stand-in",
    "org.opencontainers.image.description": "Stands in for NVIDIA's GPU Operator in a lab: kubectl and a script.",
}


def helm() -> Path:
    """Return the path of helm, once it is built."""
    return recipes.helm().program("helm")


def build_helm() -> None:
    """Build helm unless it exists. Raises DepotError."""
    golang.provide(recipes.helm())


def build() -> None:
    """Build helm and store the image; existing ones are reused. Raises DepotError."""
    build_helm()
    _image().build()


def _image() -> images.Image:
    source = recipes.kubernetes(versions.DEFAULT_KUBERNETES)
    settings = Settings(("/stub",), (), "", {}, _LABELS)
    stub = _HERE / "operator" / "stub"
    key = cache.digest(source.key, settings, cache.tree_digest(stub, _HERE / "images.py", _HERE / "operator_image.py"))
    files: dict[str, oci.Content] = {"/stub": stub, "/usr/bin/kubectl": source.program("kubectl")}
    return images.Image(REFERENCE, key, files, settings, on_base=True)
