# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a table on the page."""

from __future__ import annotations

from dataclasses import dataclass

# The page shows no more rows than this; the JSON report has all of them.
MOST_ROWS = 100


@dataclass(frozen=True)
class Cell:
    """A cell; ``state`` is ok, warn, bad, unknown, or empty for plain text; ``codes`` are lines to copy."""

    text: str
    state: str = ""
    codes: tuple[str, ...] = ()
    below: str = ""


Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Fold:
    """Rows that are hidden until the reader unfolds them."""

    label: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is its header.

    ``words`` replace a table without rows, which means that everything passed unless it is ``unchecked``. On a phone,
    the rows of a ``wide`` table are stacked.
    """

    key: str
    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    words: str
    fold: Fold
    wide: bool = False
    unchecked: bool = False

    @property
    def state(self) -> str:
        return "unknown" if self.unchecked else "ok"

    @property
    def shown(self) -> tuple[Row, ...]:
        return self.rows[:MOST_ROWS]

    @property
    def left_out(self) -> int:
        return max(0, len(self.rows) - MOST_ROWS)
