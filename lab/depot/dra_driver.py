"""Kubernetes' own DRA test driver, which runs on a node and offers invented devices under any driver's name."""

from __future__ import annotations

from pathlib import Path

from lab.depot import golang, recipes, versions

_NAME = "dra-test-driver"


def build() -> None:
    """Build the program; an existing build is reused. Raises DepotError."""
    golang.provide(recipes.dra_test_driver(versions.DEFAULT_KUBERNETES))


def program() -> Path:
    """Return the path of the built program."""
    return recipes.dra_test_driver(versions.DEFAULT_KUBERNETES).program(_NAME)
