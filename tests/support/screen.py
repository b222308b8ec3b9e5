# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last screen of a program on a terminal of 80 columns and 24 lines."""

from __future__ import annotations

import re

LINES, COLUMNS = 24, 80
_CODE = re.compile(r"\x1b\[(\d*)([A-Za-z])|\x1b[()][A-Z0-9]|[\r\x07]")


def last_screen(output: str) -> list[str]:
    """Return the rows that are visible at the end. Only cursor-up and erase sequences are interpreted."""
    rows: list[str] = [""]
    place = 0
    text, pieces = "", []
    for found in _CODE.finditer(output):
        pieces.append((output[place : found.start()], found[1] or "", found[2] or ""))
        place = found.end()
    for text, number, code in [*pieces, (output[place:], "", "")]:
        first, *others = text.split("\n")
        rows[-1] += first
        rows += others
        if code == "A":
            rows = [*rows[: len(rows) - 1 - int(number or 1)], ""]
    shown = [row[begin : begin + COLUMNS] for row in rows for begin in range(0, max(len(row), 1), COLUMNS)]
    return [row.rstrip() for row in shown][-LINES:]
