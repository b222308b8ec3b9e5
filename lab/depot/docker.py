"""Docker Engine, its command line and plugins, which only the tests of the role docker need: `build --with docker`."""

from __future__ import annotations

from lab.depot import builder, docker_programs, golang, versions


def build() -> None:
    """Build them, and with them their packages; what is there already costs nothing. Raises DepotError."""
    for version in versions.DOCKER:
        for recipe in (*docker_programs.engine(version), *docker_programs.plugins(version).values()):
            golang.provide(recipe)
    builder.build()
