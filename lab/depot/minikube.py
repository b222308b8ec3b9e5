"""minikube with what it downloads when it starts, which only its role needs: `build --with minikube`."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, golang, images, oci, recipes, registry, versions
from lab.depot.golang import Recipe
from lab.depot.oci import Settings

_HERE = Path(__file__).resolve().parent
# What it fetches of a Kubernetes version, with a checksum next to each.
_PROGRAMS = ("kubeadm", "kubectl", "kubelet")


def build() -> None:
    """Build and place what is missing; what is there already costs nothing. Raises DepotError."""
    for version in versions.table()["minikube"]:
        recipe, provisioner = recipes.minikube(version), recipes.storage_provisioner(version)
        for one in (recipe, provisioner):
            if not golang.is_built(one):
                with cache.lock("depot"), progress.step(f"{one.name} {one.version} from {one.module}"):
                    golang.build(one)
        below = f"storage.googleapis.com/minikube/releases/{recipe.version}"
        _place(below, recipe, {"minikube-linux-amd64": "minikube"})
        _store(_image(provisioner))
    kubernetes = recipes.kubernetes(versions.DEFAULT_KUBERNETES)
    below = f"dl.k8s.io/release/{kubernetes.version}/bin/linux/amd64"
    _place(below, kubernetes, {name: name for name in _PROGRAMS})


def _place(below: str, recipe: Recipe, files: dict[str, str]) -> None:
    key = cache.digest(recipe.key, files, cache.tree_digest(_HERE / "minikube.py"))
    with cache.lock("depot"):
        if cache.key_of(paths.www() / below) == key:
            return
        with cache.fresh(paths.www() / below, key) as work:
            for name, program in files.items():
                source = recipe.program(program)
                try:
                    os.link(source, work / name)
                except OSError:
                    shutil.copyfile(source, work / name)
                digest = hashlib.sha256(source.read_bytes()).hexdigest()
                (work / f"{name}.sha256").write_text(digest + "\n")


def _store(image: images.Image) -> None:
    if not image.is_stored:
        with cache.lock("depot"), registry.writable() as target:
            if not image.is_stored:
                with progress.step(f"Image {image.reference}"):
                    image.store(target)


def _image(recipe: Recipe) -> images.Image:
    name = "storage-provisioner"
    labels = {
        "org.opencontainers.image.title": name,
        "org.opencontainers.image.version": versions.STORAGE_PROVISIONER,
        "org.opencontainers.image.description": f"Built from {recipe.module} {recipe.version} for a lab.",
    }
    settings = Settings((f"/{name}",), (), "", {}, labels)
    key = cache.digest(recipe.key, settings, cache.tree_digest(_HERE / "images.py", _HERE / "minikube.py"))
    reference = f"gcr.io/k8s-minikube/{name}:{versions.STORAGE_PROVISIONER}"
    files: dict[str, oci.Content] = {f"/{name}": recipe.program(name)}
    return images.Image(reference, key, files, settings)
