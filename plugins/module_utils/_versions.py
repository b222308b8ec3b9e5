# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare versions by dpkg's rules, which also work for programs and Python packages. Pure functions."""

from __future__ import annotations

import re
from itertools import zip_longest

_PARTS = re.compile(r"(\D*)(\d*)")


def compare_versions(one: str, other: str) -> int:
    """Return -1, 0 or 1 if the first version is lower than, equal to or higher than the second (deb-version(7))."""
    for left, right in zip(_split(one), _split(other)):
        for (left_text, left_number), (right_text, right_number) in zip_longest(
            _PARTS.findall(left), _PARTS.findall(right), fillvalue=("", "")
        ):
            a = ([*map(_weight, left_text), 0], int(left_number or 0))
            b = ([*map(_weight, right_text), 0], int(right_number or 0))
            if a != b:
                return -1 if a < b else 1
    return 0


def _split(version: str) -> tuple[str, str, str]:
    epoch, colon, rest = version.strip().partition(":")
    if not colon:
        epoch, rest = "0", version.strip()
    upstream, _dash, revision = rest.rpartition("-")
    return (epoch, upstream, revision) if _dash else (epoch, rest, "")


def _weight(character: str) -> int:
    """Return a sort key: a tilde sorts before the end of a part, letters before other characters."""
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256
