# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the GPU family (of ``data.py``) by a PCI device ID or a name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .data import BLOCKS, FAMILIES, NAMES, Family

# 0x1eb8, 10de:1eb8, nvidia-smi's form with the vendor last (0x1EB810DE), or the bare digits. No ID begins with a
# letter, but names do: A100, B200.
_DEVICE_ID = re.compile(r"(?:0x|10de:(?:0x)?)([0-9a-f]{4})(?:10de)?|([0-9][0-9a-f]{3})10de|([0-9][0-9a-f]{3})")
# Bare numbers that are in a block of device IDs, but more likely a model: GeForce RTX 2080, Quadro T1200.
_MODELS = frozenset(
    (
        *("1000", "1010", "1030", "1050", "1060", "1070", "1080", "1200"),
        *("1630", "1650", "1660", "2080", "2200"),
    )
)
_NAMES = tuple((re.compile(row.pattern), row) for row in NAMES)
_LONGEST = 200


@dataclass(frozen=True)
class Gpu:
    """A GPU; ``data_center`` is None if neither name nor family shows it."""

    family: Family
    data_center: bool | None = None


def by_device_id(text: str) -> Family | None:
    """Return the family of a device ID such as ``0x1eb8`` or ``1eb8``; None if it is invalid or unknown."""
    match = _DEVICE_ID.fullmatch(text.strip().lower())
    if not match or match[3] in _MODELS:
        return None
    number = int(next(filter(None, match.groups())), 16)
    return next((block.family for block in BLOCKS if block.first <= number <= block.last), None)


def by_name(text: str) -> Gpu | None:
    """Return the GPU with this name in nvidia-smi, with or without "NVIDIA", or of an architecture ("Turing")."""
    name = " ".join(text[:_LONGEST].lower().split()).removeprefix("nvidia ")
    if name == "ada":
        name = "ada lovelace"
    for family in FAMILIES:
        if name == family.name.lower():
            return Gpu(family, family.data_center)
    for pattern, row in _NAMES:
        if pattern.match(name):
            return Gpu(row.family, row.data_center)
    return None


def identify(text: str) -> Gpu | None:
    """Return the GPU of a PCI device ID or name, None if it is unknown."""
    family = by_device_id(text)
    return Gpu(family, family.data_center) if family else by_name(text)
