# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which family of C(_cuda_data) a GPU belongs to, by its PCI device id or by its name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .data import BLOCKS, FAMILIES, NAMES, Family

# 0x1eb8, 10de:1eb8, and nvidia-smi's own form, vendor last: 0x1EB810DE; or the bare digits. No id begins with a letter,
# but names do: A100, B200.
_DEVICE_ID = re.compile(r"(?:0x|10de:(?:0x)?)([0-9a-f]{4})(?:10de)?|([0-9][0-9a-f]{3})10de|([0-9][0-9a-f]{3})")
# Bare numbers that are in a block, but are rather a model: a GeForce RTX 2080, a Quadro T1200.
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
    """``data_center`` is None where neither name nor family say it."""

    family: Family
    data_center: bool | None = None


def by_device_id(text: str) -> Family | None:
    """The family of a device id such as ``0x1eb8`` or ``1eb8``; None when it is none, or in none of the blocks."""
    match = _DEVICE_ID.fullmatch(text.strip().lower())
    if not match or match[3] in _MODELS:
        return None
    number = int(next(filter(None, match.groups())), 16)
    return next((block.family for block in BLOCKS if block.first <= number <= block.last), None)


def by_name(text: str) -> Gpu | None:
    """The GPU that nvidia-smi calls so, with or without "NVIDIA"; or any of an architecture ("Turing")."""
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
    """The GPU of a PCI device id or a name; None when this table knows neither."""
    family = by_device_id(text)
    return Gpu(family, family.data_center) if family else by_name(text)
