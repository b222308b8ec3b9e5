"""Stands in for the filters when `make site` builds the reference, so that it lists only the public ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {path.stem: str for path in Path(__file__).parent.glob("*.yml")}
