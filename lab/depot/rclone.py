"""A current rclone, whose `serve s3` is an object store: `build --with rclone`. The distributions' is older."""

from __future__ import annotations

from pathlib import Path

from lab.depot import golang, recipes, versions


def build() -> None:
    """Build the program; an existing build is reused. Raises DepotError."""
    golang.provide(recipes.rclone(versions.RCLONE))


def program() -> Path:
    """Return the path of the built program."""
    return recipes.rclone(versions.RCLONE).program("rclone")
