# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How counts, lists and times are written. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any


def counted(number: int, what: str) -> str:
    """1 problem, 2 problems."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listing(values: Iterable[Any]) -> str:
    """Return the values with commas between them."""
    return ", ".join(map(str, values))


def written(time: float | None) -> str | None:
    """A time in UTC as the module returns it."""
    return None if time is None else datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> float | None:
    """The seconds of such a text, None for any other."""
    try:
        found = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
        return found.replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None
