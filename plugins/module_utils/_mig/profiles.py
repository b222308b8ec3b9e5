# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse nvidia-smi's output about MIG: profiles, placements, instances. Pure functions.

The exit status is useless for MIG: "No MIG-enabled devices found." exits with 0 or 6 depending on the version, and a
failed change of the mode with 0. Therefore the state must be read again after a change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_PROFILE = re.compile(r"\|\s+(\d+)\s+MIG (\S+)\s+(\d+)\s+(\d+)/(\d+)\s+[\d.]+\s")
# A profile's row and the next: decoders and encoders, then copy, JPEG and optical flow engines.
_ENGINES = re.compile(
    r"\|\s+(\d+)\s+MIG \S+\s+(\d+)\s+\d+/\d+\s+[\d.]+\s+\S+\s+\d+\s+(\d+)\s+(\d+)\s+\|\s*\n"
    r"\s*\|\s+\d+\s+(\d+)\s+(\d+)\s+\|"
)
_PLACEMENT = re.compile(r"GPU\s+(\d+) Profile ID\s+(\d+) Placements?\s*:\s*\{([\d,\s]*)\}:(\d+)")
_INSTANCE = re.compile(r"\|\s+(\d+)\s+MIG (\S+)\s+(\d+)\s+(\d+)\s+(\d+):(\d+)\s+\|")
_COMPUTE = re.compile(r"\|\s+(\d+)\s+(\d+)\s+MIG (\S+)\s+(\d+)\*?\s+(\d+)\s+(\d+):(\d+)\s+\|")
_SLICES = re.compile(r"(\d+)g\.")

QUERY = ("index", "uuid", "name", "memory.total", "mig.mode.current", "mig.mode.pending")


@dataclass(frozen=True)
class Gpu:
    """``current`` and ``pending`` are None for a GPU without MIG support; memory is in MiB."""

    index: int
    uuid: str
    name: str
    memory: int
    current: bool | None
    pending: bool | None


@dataclass(frozen=True)
class Profile:
    """A MIG profile: ``size`` memory slices from one of ``starts``, at most ``total`` instances.

    ``engines``: the number of decoders, encoders, JPEG and optical flow engines, empty if unknown.
    """

    name: str
    id: int
    total: int
    starts: tuple[int, ...]
    size: int
    engines: tuple[int, ...] = field(default=(), compare=False)

    @property
    def slices(self) -> int:
        """The number of compute slices."""
        match = _SLICES.match(self.name)
        return int(match.group(1)) if match else 0


@dataclass(frozen=True)
class Instance:
    """A GPU instance; ``whole`` is True if one compute instance uses all of it, as by default."""

    gpu: int
    profile: str
    id: int
    start: int
    whole: bool = False


def parse_gpus(text: str) -> list[Gpu]:
    """Parse ``--query-gpu`` of QUERY in CSV without header and units; other lines are skipped."""
    found = []
    for line in text.splitlines():
        row = [cell.strip() for cell in line.split(",")]
        if len(row) == len(QUERY) and row[0].isdecimal():
            index, uuid, name, memory, current, pending = row
            size = int(memory) if memory.isdecimal() else 0
            found.append(Gpu(int(index), uuid, name, size, _mode(current), _mode(pending)))
    return found


def _mode(word: str) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(word)


def parse_profiles(text: str) -> dict[int, list[tuple[str, int, int]]]:
    """Return GPU -> (name, id, maximum number) from ``mig -lgip``, whatever is free now."""
    found: dict[int, list[tuple[str, int, int]]] = {}
    for match in _PROFILE.finditer(text):
        gpu, number, total = int(match[1]), int(match[3]), int(match[5])
        found.setdefault(gpu, []).append((match[2], number, total))
    return found


def parse_engines(text: str) -> dict[int, dict[int, tuple[int, ...]]]:
    """Return GPU -> profile id -> numbers of decoders, encoders, JPEG and optical flow engines, from ``mig -lgip``."""
    found: dict[int, dict[int, tuple[int, ...]]] = {}
    for match in _ENGINES.finditer(text):
        gpu, number, *engines = map(int, match.groups())
        found.setdefault(gpu, {})[number] = tuple(engines)
    return found


def parse_placements(text: str) -> dict[int, dict[int, tuple[tuple[int, ...], int]]]:
    """Return GPU -> profile id -> (starts, size) from ``mig -lgipp``."""
    found: dict[int, dict[int, tuple[tuple[int, ...], int]]] = {}
    for match in _PLACEMENT.finditer(text):
        starts = tuple(int(start) for start in match[3].split(",") if start.strip())
        found.setdefault(int(match[1]), {})[int(match[2])] = (starts, int(match[4]))
    return found


def parse_instances(gpu_instances: str, compute_instances: str) -> list[Instance]:
    """Return the instances from ``mig -lgi`` and ``mig -lci``, sorted by GPU and place."""
    inside: dict[tuple[int, int], list[str]] = {}
    for match in _COMPUTE.finditer(compute_instances):
        inside.setdefault((int(match[1]), int(match[2])), []).append(match[3])
    found = []
    for match in _INSTANCE.finditer(gpu_instances):
        gpu, number, start = int(match[1]), int(match[4]), int(match[5])
        computes = inside.get((gpu, number), [])
        # A partial compute instance is named like "1c.3g.20gb"; only the GPU instance has media extensions.
        whole = len(computes) == 1 and "c." not in computes[0]
        found.append(Instance(gpu, match[2], number, start, whole))
    return sorted(found, key=lambda instance: (instance.gpu, instance.start))


def combine(
    names: Iterable[tuple[str, int, int]],
    places: Mapping[int, tuple[tuple[int, ...], int]],
    gpu: Gpu,
    engines: Mapping[int, tuple[int, ...]] | None = None,
) -> list[Profile]:
    """Return a GPU's profiles. Some versions of nvidia-smi list none while MIG is off; built-in tables replace them."""
    listed = [
        Profile(name, number, total, *places[number], (engines or {}).get(number, ()))
        for name, number, total in names
        if number in places
    ]
    return listed or known(gpu)


# Profile id -> (compute slices, suffix, memory slices, maximum number, starts); source: "Supported MIG Profiles" in
# docs.nvidia.com/datacenter/tesla/mig-user-guide. The names are derived from the memory.
_SEVEN: dict[int, tuple[int, str, int, int, tuple[int, ...]]] = {
    19: (1, "", 1, 7, (0, 1, 2, 3, 4, 5, 6)),
    20: (1, "+me", 1, 1, (0, 1, 2, 3, 4, 5, 6)),
    15: (1, "", 2, 4, (0, 2, 4, 6)),
    14: (2, "", 2, 3, (0, 2, 4)),
    9: (3, "", 4, 2, (0, 4)),
    5: (4, "", 4, 1, (0,)),
    0: (7, "", 8, 1, (0,)),
}
_FOUR: dict[int, tuple[int, str, int, int, tuple[int, ...]]] = {
    14: (1, "", 1, 4, (0, 1, 2, 3)),
    21: (1, "+me", 1, 1, (0, 1, 2, 3)),
    5: (2, "", 2, 2, (0, 2)),
    6: (2, "+me", 2, 1, (0, 2)),
    0: (4, "", 4, 1, (0,)),
}
_TWELVE: dict[int, tuple[int, str, int, int, tuple[int, ...]]] = {
    14: (1, "", 3, 4, (0, 3, 6, 9)),
    21: (1, "+me", 3, 1, (0, 3, 6, 9)),
    47: (1, "+gfx", 3, 4, (0, 3, 6, 9)),
    65: (1, "+me.all", 3, 1, (0, 3, 6, 9)),
    67: (1, "-me", 3, 4, (0, 3, 6, 9)),
    5: (2, "", 6, 2, (0, 6)),
    35: (2, "+gfx", 6, 2, (0, 6)),
    64: (2, "+me.all", 6, 1, (0, 6)),
    66: (2, "-me", 6, 2, (0, 6)),
    0: (4, "", 12, 1, (0,)),
    32: (4, "+gfx", 12, 1, (0,)),
}
_FAMILIES = (
    (re.compile(r"\bA30\b"), _FOUR, 4),
    (re.compile(r"\b(?:A100|A800|H100|H800|H200|H20|GH200|B200|GB200|B300|GB300)\b"), _SEVEN, 8),
    (re.compile(r"\bRTX PRO 6000\b"), _TWELVE, 12),
)


def known(gpu: Gpu) -> list[Profile]:
    """Return the profiles of GPUs in the built-in tables, empty for others."""
    for pattern, table, whole in _FAMILIES:
        if pattern.search(gpu.name):
            # Rounded like go-nvlib (pkg/nvlib/device/mig_profile.go): GPU memory up to GiB, its share to the nearest.
            memory = -(-gpu.memory // 1024)
            return [
                Profile(f"{slices}g.{(2 * memory * size + whole) // (2 * whole)}gb{end}", number, total, starts, size)
                for number, (slices, end, size, total, starts) in table.items()
            ]
    return []
