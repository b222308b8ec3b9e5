# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a table of the page is made of."""

from __future__ import annotations

from dataclasses import dataclass

# More rows than this are not shown on the page; the JSON report has all of them.
MOST_ROWS = 100


@dataclass(frozen=True)
class Cell:
    """``state`` is ok, warn, bad, unknown, or empty for a plain text; ``codes`` are for copying, a line for each."""

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
    """The first cell of a row is its header. ``words`` stand in place of a table without rows, in which everything
    passed unless it is ``unchecked``. On a phone the rows of a ``wide`` table are shown one below the other.
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
