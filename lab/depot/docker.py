"""Docker Engine and its command line, which only the tests of the role docker need: `build --with docker`."""

from __future__ import annotations

from importlib import import_module

from lab.depot import golang, recipes, versions
from lab.depot.golang import Recipe


def is_built(version: str) -> bool:
    """Say whether the packages of this version hold programs; otherwise they are empty."""
    return version in versions.DOCKER and all(golang.is_built(recipe) for recipe in _recipes(version))


def build() -> None:
    """Build them, and with them their packages; what is there already costs nothing. Raises DepotError."""
    for version in versions.DOCKER:
        for recipe in _recipes(version):
            golang.provide(recipe)
    import_module("lab.depot.builder").build()


def _recipes(version: str) -> tuple[Recipe, Recipe]:
    return recipes.docker_engine(version), recipes.docker_cli(version)
