"""Optional parts, which only some tests and guides need: `python -m lab build --with NAME`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from lab.nodes.errors import LabError

# The depot builds its own parts; others name a module with a function `build()`, which costs nothing the second time.
_DEPOT = ""
PARTS = {"torch": _DEPOT, "ee": "lab.ee"}


def check(names: Sequence[str]) -> None:
    """Raise LabError for a name that no part has."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise LabError(f"Error while reading --with {unknown[0]}: there is no such part, only: {', '.join(PARTS)}.")


def of_depot(names: Sequence[str]) -> list[str]:
    """Return those of the parts that the depot builds itself."""
    return [name for name in dict.fromkeys(names) if PARTS[name] == _DEPOT]


def build(names: Sequence[str]) -> None:
    """Build the other parts, one after the other. Raises LabError or DepotError."""
    check(names)
    for name in (name for name in dict.fromkeys(names) if PARTS[name] != _DEPOT):
        import_module(PARTS[name]).build()
