"""The image of Rancher's local-path-provisioner, around the program built from its Go module."""

from __future__ import annotations

from pathlib import Path

from lab import progress
from lab.depot import cache, golang, images, oci, recipes, registry, versions
from lab.depot.oci import Settings

_HERE = Path(__file__).resolve().parent


def build() -> None:
    """Build the program and store the image; what is there already costs nothing. Raises DepotError."""
    recipe = recipes.local_path_provisioner(versions.table()["local_path_provisioner"])
    if not golang.is_built(recipe):
        with cache.lock("depot"), progress.step(f"{recipe.name} {recipe.version} from {recipe.module}"):
            golang.build(recipe)
    image = _image()
    if not image.is_stored:
        with cache.lock("depot"), registry.writable() as target:
            if not image.is_stored:
                with progress.step(f"Image {image.reference}"):
                    image.store(target)


def _image() -> images.Image:
    recipe = recipes.local_path_provisioner(versions.table()["local_path_provisioner"])
    reference = f"docker.io/rancher/local-path-provisioner:{recipe.version}"
    versions.check_image(reference)
    name = "local-path-provisioner"
    labels = {
        "org.opencontainers.image.title": name,
        "org.opencontainers.image.version": recipe.version,
        "org.opencontainers.image.description": f"Built from {recipe.module} {recipe.version} for a lab.",
    }
    settings = Settings((), (name,), "", {}, labels)
    key = cache.digest(recipe.key, settings, cache.tree_digest(_HERE / "images.py", _HERE / "local_path_image.py"))
    files: dict[str, oci.Content] = {f"/usr/bin/{name}": recipe.program(name)}
    return images.Image(reference, key, files, settings)
