"""minikube and the Kubernetes that it starts, which only its role needs: `build --with minikube`."""

from __future__ import annotations

from pathlib import Path

from lab import paths
from lab.depot import cache, golang, images, recipes, versions
from lab.depot.golang import Recipe

_HERE = Path(__file__).resolve().parent
# Programs of Kubernetes that minikube downloads, each with a checksum file.
_PROGRAMS = ("kubeadm", "kubectl", "kubelet")


def build() -> None:
    """Build and store missing programs; existing ones are reused. Raises DepotError."""
    for version, known in versions.table()["minikube"].items():
        recipe = recipes.minikube(version)
        golang.provide(recipe)
        below = f"storage.googleapis.com/minikube/releases/{recipe.version}"
        _place(below, recipe, {"minikube-linux-amd64": "minikube"})
        _kubernetes(known["kubernetes"])


def _kubernetes(version: str) -> None:
    recipe = recipes.kubernetes(version)
    golang.provide(recipe)
    for program in images.dependencies(version):
        golang.provide(program)
    for image in images.kubernetes(version):
        image.build()
    _place(f"dl.k8s.io/release/{recipe.version}/bin/linux/amd64", recipe, {name: name for name in _PROGRAMS})


def _place(below: str, recipe: Recipe, files: dict[str, str]) -> None:
    key = cache.digest(recipe.key, files, cache.tree_digest(_HERE / "minikube.py"))
    with cache.lock("depot"):
        if cache.key_of(paths.www() / below) == key:
            return
        with cache.fresh(paths.www() / below, key) as work:
            for name, program in files.items():
                source = recipe.program(program)
                (work / name).hardlink_to(source)
                (work / f"{name}.sha256").write_text(f"{cache.file_digest(source)}\n")
