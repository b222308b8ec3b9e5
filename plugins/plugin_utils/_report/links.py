# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the connections between a host's GPUs as arcs over a row. Pure geometry, no SVG."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from .read import dictionary, text, texts

_NVLINK = re.compile(r"NV(\d+)")
_STEP = 44
_MARGIN = 22
# Paths other than NVLink in nvidia-smi topo -m, as its own legend describes them.
_PCIE = {
    "PIX": "one PCIe bridge",
    "PXB": "several PCIe bridges",
    "PHB": "the PCIe host bridge of a CPU",
    "NODE": "the host bridges of one NUMA node",
    "SYS": "the link between CPUs",
}


@dataclass(frozen=True)
class Arc:
    """An NVLink connection as the path of a half ellipse, with its number of links."""

    start: int
    end: int
    radius: int
    height: int
    count: int
    base: int


@dataclass(frozen=True)
class Links:
    """``points`` are the positions of the GPUs in the row; ``words`` describe the drawing.

    No ``arcs`` are drawn if no pair has NVLinks, or all pairs have the same number.
    """

    width: int
    height: int
    base: int
    points: tuple[tuple[str, int], ...]
    arcs: tuple[Arc, ...]
    words: str


def links(topology: dict[str, Any]) -> Links | None:
    """Return the connections in ``topology`` of nvidia_smi_info, None if fewer than two GPUs are known."""
    names = list(dict.fromkeys(texts(topology.get("gpus"))))
    if len(names) < 2:
        return None
    matrix = dictionary(topology.get("matrix"))
    kinds = {(a, b): text(dictionary(matrix.get(a)).get(b)) or "unknown" for a, b in combinations(names, 2)}
    places = {name: _MARGIN + _STEP * place for place, name in enumerate(names)}
    far = max((places[b] - places[a] for (a, b), kind in kinds.items() if _NVLINK.fullmatch(kind)), default=0)
    base = 12 + far // 4
    arcs = tuple(
        Arc(places[a], places[b], (places[b] - places[a]) // 2, (places[b] - places[a]) // 4, int(found[1]), base)
        for (a, b), kind in kinds.items()
        for found in [_NVLINK.fullmatch(kind)]
        if found and len(found[1]) < 4 and len(set(kinds.values())) > 1
    )
    return Links(
        width=2 * _MARGIN + _STEP * (len(names) - 1),
        height=base + 26,
        base=base,
        points=tuple((name.removeprefix("GPU"), place) for name, place in places.items()),
        arcs=arcs,
        words=_words(kinds),
    )


def _words(kinds: dict[tuple[str, str], str]) -> str:
    counted = Counter(kinds.values())
    if len(counted) == 1:
        return f"Each pair of GPUs is connected by {_kind(next(iter(counted)))}."
    found = []
    for kind in counted:
        pairs = [
            f"{a.removeprefix('GPU')}-{b.removeprefix('GPU')}"
            for pair, each in kinds.items()
            for a, b in [pair]
            if each == kind
        ]
        found.append(f"{_kind(kind)}: {', '.join(pairs)}")
    return f"Pairs of GPUs by {'; '.join(found)}."


def _kind(kind: str) -> str:
    nvlink = _NVLINK.fullmatch(kind)
    if nvlink:
        return f"{nvlink[1]} NVLink{'' if nvlink[1] == '1' else 's'}"
    return _PCIE.get(kind, kind)
