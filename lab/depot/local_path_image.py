"""The image of Rancher's local-path-provisioner, around the program built from its Go module."""

from __future__ import annotations

from lab.depot import golang, images, recipes, versions


def build() -> None:
    """Build the program and store the image; what is there already costs nothing. Raises DepotError."""
    recipe = recipes.local_path_provisioner(versions.table()["local_path_provisioner"])
    golang.provide(recipe)
    name = "local-path-provisioner"
    reference = f"docker.io/rancher/{name}:{recipe.version}"
    versions.check_image(reference)
    images.around(reference, recipe, {f"/usr/bin/{name}": recipe.program(name)}, command=(name,)).build()
