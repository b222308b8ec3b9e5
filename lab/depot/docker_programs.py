"""Recipes for Docker Engine, its command line and plugins, which are only built for labs that need them."""

from __future__ import annotations

from lab.depot import golang, recipes, versions
from lab.depot.golang import Recipe


def is_built(version: str) -> bool:
    """Return whether the packages of this version contain programs; otherwise they are empty."""
    return version in versions.DOCKER and all(golang.is_built(recipe) for recipe in engine(version))


def engine(version: str) -> tuple[Recipe, Recipe]:
    """Return the recipes of the engine and the command line of a Docker version."""
    return recipes.docker_engine(version), recipes.docker_cli(version)


def plugins(version: str) -> dict[str, Recipe]:
    """Return the recipes of the plugins for a Docker version, by package name."""
    entry = versions.table()["docker"][version]
    numbers = {name: next(iter(entry[name].values())).partition("-")[0] for name in ("buildx", "compose")}
    return {
        "docker-buildx-plugin": recipes.docker_buildx(numbers["buildx"]),
        "docker-compose-plugin": recipes.docker_compose(numbers["compose"]),
    }
