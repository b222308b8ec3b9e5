# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format counts, lists and times. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

_MOST, _LONGEST = 50, 500


def counted(number: int, what: str) -> str:
    """Return a count with its noun, for example "1 problem" or "2 problems"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listing(values: Iterable[Any]) -> str:
    """Return the values separated by commas."""
    return ", ".join(map(str, values))


def abridged(lines: Iterable[str]) -> list[str]:
    """Return lines from a host for a message: long ones are cut off, and the last of many are only counted."""
    found = [line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..." for line in lines]
    return found if len(found) <= _MOST else [*found[:_MOST], f"and {len(found) - _MOST} more"]


def written(time: float | None) -> str | None:
    """Format a time in seconds as UTC text for a module's result."""
    return None if time is None else datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> float | None:
    """Parse a time in the form of ``written``; return its seconds, None for other text."""
    try:
        found = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
        return found.replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None
