# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse Kubernetes quantities. Pure functions."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?", re.ASCII)
_PREFIXES = "KMGTPE"


def read_quantity(text: str) -> Fraction | None:
    """Return the number of ``500m``, ``2T`` or ``100Gi``, None for anything else."""
    found = _QUANTITY.fullmatch(text)
    if not found:
        return None
    number, unit = Fraction(found[1]), found[2] or ""
    if unit in ("", "m"):
        return number / 1000 if unit else number
    power: int = (1024 if unit.endswith("i") else 1000) ** (_PREFIXES.index(unit[0].upper()) + 1)
    return number * power


def quantity(text: Any) -> Fraction | None:
    """Return an amount of bytes (100Gi, 2T), None for anything else."""
    return None if str(text).endswith("m") else read_quantity(str(text))
