"""minikube with what it downloads when it starts, which only its role needs: `build --with minikube`."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, golang, recipes, versions
from lab.depot.golang import Recipe

_HERE = Path(__file__).resolve().parent
# What it fetches of a Kubernetes version, with a checksum next to each.
_PROGRAMS = ("kubeadm", "kubectl", "kubelet")


def build() -> None:
    """Build and place what is missing; what is there already costs nothing. Raises DepotError."""
    for version in versions.table()["minikube"]:
        recipe = recipes.minikube(version)
        if not golang.is_built(recipe):
            with cache.lock("depot"), progress.step(f"{recipe.name} {recipe.version} from {recipe.module}"):
                golang.build(recipe)
        below = f"storage.googleapis.com/minikube/releases/{recipe.version}"
        _place(below, recipe, {"minikube-linux-amd64": "minikube"})
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
