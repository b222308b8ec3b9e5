"""Docker Engine, its command line and plugins, which only the tests of the role docker need: `build --with docker`."""

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
        for recipe in (*_recipes(version), *plugins(version).values()):
            golang.provide(recipe)
    import_module("lab.depot.builder").build()


def plugins(version: str) -> dict[str, Recipe]:
    """Return how the plugins are built that belong to a version of Docker, by the names of their packages."""
    entry = versions.table()["docker"][version]
    numbers = {name: next(iter(entry[name].values())).partition("-")[0] for name in ("buildx", "compose")}
    return {
        "docker-buildx-plugin": recipes.docker_buildx(numbers["buildx"]),
        "docker-compose-plugin": recipes.docker_compose(numbers["compose"]),
    }


def _recipes(version: str) -> tuple[Recipe, Recipe]:
    return recipes.docker_engine(version), recipes.docker_cli(version)
