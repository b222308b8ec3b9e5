# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which drivers support all GPUs of a host, with open or proprietary kernel modules. Pure.

A host has one driver, so its GPUs must have a common branch and kind of modules.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...module_utils._nvidia.pci import usable
from .._cuda.compatibility import branch_problem
from .._cuda.data import BRANCHES, FAMILIES, OPEN_REQUIRED, OPEN_UNSUPPORTED, Family
from .._cuda.families import by_device_id

AUTO = "auto"
OPEN, PROPRIETARY = "open", "proprietary"
KINDS = (OPEN, PROPRIETARY)
# The oldest branch that the container toolkit supports (its installation guide), the first one with open modules, and
# the first one without proprietary ones.
FIRST_BRANCH, FIRST_OPEN, FIRST_OPEN_ONLY = 418, 515, 615
_BRANCHES = tuple(branch for branch in BRANCHES.numbers if branch >= FIRST_BRANCH)


@dataclass(frozen=True)
class DriverRange:
    """Branches that support GPUs with one kind of modules; ``last`` is None if no last branch is known."""

    modules: str
    first: int
    last: int | None

    def __str__(self) -> str:
        if self.first == FIRST_BRANCH and self.last:
            branches = f"branch {self.last} or older"
        elif self.last and self.last != self.first:
            branches = f"branches {self.first} to {self.last}"
        else:
            branches = f"branch {self.first}" + ("" if self.last else " or newer")
        return f"{branches} with the {self.modules} kernel modules"


@dataclass(frozen=True)
class Split:
    """Drivers that support some GPUs of a host, and the addresses of the GPUs that are left out."""

    drivers: DriverRange
    left_out: tuple[str, ...]


def kinds_of(branch: int) -> tuple[str, ...]:
    """Return the kinds of kernel modules that NVIDIA provides for a branch."""
    return tuple(kind for kind in KINDS if _provided(branch, kind))


def refusal(family: Family, branch: int, modules: str) -> str:
    """Return why a driver does not support a GPU family, empty if it does; without ``modules``, by branch only."""
    return branch_problem(family, branch) or modules_problem(family, branch, modules)


def modules_problem(family: Family, branch: int, modules: str) -> str:
    """Return why a kind of modules does not support a GPU family, empty if it does or ``modules`` is empty."""
    if modules == OPEN and family.open_modules == OPEN_UNSUPPORTED:
        return "they have no GPU system processor (GSP), without which the open kernel modules can't drive them"
    if modules == PROPRIETARY and family.open_modules == OPEN_REQUIRED:
        return "only the open kernel modules drive them"
    if modules and not _provided(branch, modules):
        return f"NVIDIA provides no {modules} kernel modules of branch {branch}"
    return ""


@functools.lru_cache(maxsize=4096)
def serves(devices: tuple[str, ...], branch: int, modules: str) -> bool:
    """Return whether one driver supports all these GPUs; unknown ones count as supported."""
    return _provided(branch, modules) and not any(refusal(family, branch, modules) for family in families(devices))


@functools.lru_cache(maxsize=4096)
def driver_ranges(devices: tuple[str, ...]) -> tuple[DriverRange, ...]:
    """Return the drivers that support all these GPUs: at most one range for each kind of modules, open ones first."""
    return _ranges_of(*families(devices))


def _ranges_of(*found: Family) -> tuple[DriverRange, ...]:
    result = []
    for kind in KINDS:
        able = [
            branch
            for branch in _BRANCHES
            if _provided(branch, kind) and not any(refusal(family, branch, kind) for family in found)
        ]
        if able:
            result.append(DriverRange(kind, able[0], None if able[-1] == BRANCHES.numbers[-1] else able[-1]))
    return tuple(result)


def splits(gpus: Sequence[Mapping[str, Any]]) -> list[Split]:
    """Return the drivers that support as many of these GPUs as possible, the best one first.

    A GPU with the console is left out first, then the smaller group, then older GPUs.
    """
    by_rest: dict[tuple[str, ...], tuple[tuple[int, int, int], Split]] = {}
    for branch in _BRANCHES:
        for kind in kinds_of(branch):
            served = [gpu for gpu in gpus if serves((gpu["device_id"],), branch, kind)]
            rest = tuple(str(gpu["address"]) for gpu in gpus if gpu not in served)
            if not served or not rest:
                continue
            real = sum(not gpu.get("console") for gpu in served)
            score = (real, len(served), branch)
            if rest not in by_rest or by_rest[rest][0] < score:
                drivers = driver_ranges(tuple(gpu["device_id"] for gpu in served))
                by_rest[rest] = (score, Split(next(each for each in drivers if each.modules == kind), rest))
    # Drop splits that leave out more GPUs than another one.
    best = [
        (score, split)
        for rest, (score, split) in by_rest.items()
        if not any(set(other) < set(rest) for other in by_rest)
    ]
    return [each[1] for each in sorted(best, key=lambda each: each[0], reverse=True)]


def branch_of(version: str) -> int | None:
    """Return the branch of a version, None if it is not a version (``auto`` that was not decided)."""
    branch = version.partition(".")[0]
    return int(branch) if branch.isascii() and branch.isdigit() else None


def kind_for(devices: tuple[str, ...], modules: str, branch: int | None = None, kept: str = "") -> str:
    """Return the kind of modules for these GPUs: as configured, else ``kept`` if it supports them, else the best."""
    if modules != AUTO:
        return modules
    if branch is not None and kept and serves(devices, branch, kept):
        return kept
    found = [each.modules for each in driver_ranges(devices)]
    if branch is not None:
        found = [kind for kind in found if serves(devices, branch, kind)] or found
    # Preflight refuses a host without a common driver.
    return next(iter(found), OPEN)


@functools.lru_cache(maxsize=4096)
def families(devices: tuple[str, ...]) -> tuple[Family, ...]:
    """Return the families of these GPUs, each once and the oldest first; unknown GPUs are left out."""
    found = [by_device_id(device) for device in devices]
    return tuple(family for family in FAMILIES if family in found)


def devices_of(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the PCI device IDs of a host's GPUs for Kubernetes."""
    return tuple(sorted({str(gpu["device_id"]) for gpu in facts.get("gpus") or ()}))


def with_gpus_left_out(facts: Mapping[str, Any], ignored: Iterable[Any]) -> Mapping[str, Any]:
    """Return a host's facts with only its GPUs for Kubernetes in ``gpus``, and the other ones in ``gpus_left_out``."""
    if not facts.get("gpus") and not facts.get("gpus_left_out"):
        return {**facts, "gpus_left_out": []} if "gpus" in facts else facts
    found, left_out = usable([*facts["gpus"], *(facts.get("gpus_left_out") or ())], map(str, ignored))
    return {**facts, "gpus": found, "gpus_left_out": left_out}


def conflict(devices: tuple[str, ...]) -> str:
    """Return why no driver supports all these GPUs together, empty if one does."""
    if driver_ranges(devices):
        return ""
    return "; ".join(_needs(families(devices)))


def unsupported(devices: tuple[str, ...]) -> list[Family]:
    """Return the families that no driver usable in containers supports."""
    return [family for family in families(devices) if not _ranges_of(family)]


def _needs(found: Iterable[Family]) -> Iterator[str]:
    for family in found:
        own = _ranges_of(family)
        if own:
            yield f"{family.name} GPUs need {' or '.join(map(str, own))}"
        else:
            yield (
                f"{family.name} GPUs need branch {family.last_branch} or older, but containers can use GPUs only from "
                f"branch {FIRST_BRANCH} on"
            )


def _provided(branch: int, modules: str) -> bool:
    return branch >= FIRST_OPEN if modules == OPEN else branch < FIRST_OPEN_ONLY
