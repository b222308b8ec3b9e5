"""Docker Engine, its command line and plugins, which only tests of the role docker need: `build --with docker`."""

from __future__ import annotations

from lab.depot import builder, docker_programs, golang, versions


def build() -> None:
    """Build the programs and their packages; existing builds are reused. Raises DepotError."""
    for version in versions.DOCKER:
        for recipe in (*docker_programs.engine(version), *docker_programs.plugins(version).values()):
            golang.provide(recipe)
    builder.build()
