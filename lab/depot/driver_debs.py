"""The packages of the simulated NVIDIA driver, which another part of the lab makes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import paths
from lab.depot import cache, versions
from lab.depot.cache import DepotError

_LAB = Path(__file__).resolve().parent.parent


def simulation(name: str) -> Callable[..., Any]:
    """Return a function of the GPU simulation, which is loaded only when something has to be made by it."""
    try:
        found: Callable[..., Any] = getattr(importlib.import_module("lab.gpusim"), name)
    except (ImportError, AttributeError) as error:
        raise DepotError(f"Error while loading the GPU simulation: {error}.") from error
    return found


def key() -> str:
    """Key of everything that the simulation's results depend on."""
    return cache.tree_digest(_LAB / "gpusim", _LAB / "depot" / "deb.py")


def directory(version: str, distribution: str) -> Path:
    """Where the packages of one driver version for one distribution lie."""
    return paths.debs() / f"driver-{distribution}" / version


def are_packed(version: str, distribution: str) -> bool:
    """Say whether the packages are there, made from the same."""
    return cache.key_of(directory(version, distribution)) == cache.digest(key(), version, distribution)


def build() -> None:
    """Pack what is missing."""
    for version in versions.driver_versions():
        for *_docker, distribution in versions.DISTRIBUTIONS:
            if not are_packed(version, distribution):
                with cache.fresh(directory(version, distribution), cache.digest(key(), version, distribution)) as work:
                    simulation("build_driver_debs")(version, distribution, work)


def found(distribution: str) -> dict[Path, str]:
    """Return the packages of one distribution with their keys."""
    debs: dict[Path, str] = {}
    for version in versions.driver_versions():
        place = directory(version, distribution)
        debs |= dict.fromkeys(sorted(place.glob("*.deb")), cache.key_of(place))
    return debs
