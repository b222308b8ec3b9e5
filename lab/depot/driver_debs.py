"""The simulated NVIDIA driver, which another part of the lab makes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from lab.depot import cache
from lab.depot.cache import DepotError
from lab.depot.content import Content

_LAB = Path(__file__).resolve().parent.parent


def simulation(name: str) -> Callable[..., Any]:
    """Return a function of the GPU simulation, which is loaded only when something has to be made by it."""
    try:
        found: Callable[..., Any] = getattr(importlib.import_module("lab.gpusim"), name)
    except (ImportError, AttributeError) as error:
        raise DepotError(f"Error while loading the GPU simulation: {error}.") from error
    return found


@lru_cache
def key() -> str:
    """Key of everything that the simulation's results depend on."""
    return cache.tree_digest(_LAB / "gpusim", _LAB / "depot" / "deb.py")


def content(name: str, version: str, distribution: str) -> Content | None:
    """Return the content of a package of a CUDA repository; None for a driver that is not simulated."""
    found: Content | None = simulation("driver_content")(name, version, distribution)
    return found
