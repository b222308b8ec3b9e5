# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which drivers a distribution's own archive has, and for which kernels they are known not to build. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .fit import KINDS, OPEN
from .packages import newest

# Of hosts whose apt does not know the archive's packages (yet): what the stable releases have.
_KNOWN = {"Debian 12": "535.261.03", "Debian 13": "550.163.01"}
# The first kernels with the argument exclude_bars of pci_resize_resource (commit 337b1b566db0), for which the call of
# older drivers does not compile: of mainline, and of each stable series that has it. Debian's 6.1.0-53 is 6.1.17x.
_EXCLUDE_BARS = ((6, 1, 0, 53), (6, 12, 97), (6, 18, 40))
_EXCLUDE_BARS_SINCE = (6, 19)
# Distribution and driver -> the kinds of modules that make this call; the proprietary ones of 550 don't.
_CALLS = {("Debian 12", "535.261.03"): KINDS, ("Debian 13", "550.163.01"): (OPEN,)}
_KERNEL = re.compile(r"[\d.]+(?:-\d+)?")


@dataclass(frozen=True)
class Archived:
    """A driver of a distribution, with one kind of modules."""

    version: str
    modules: str


def archived(facts: Mapping[str, Any]) -> list[Archived]:
    """Return the drivers in the archive of a host's distribution, the oldest first."""
    read = {(str(each["version"]), str(each["modules"])) for each in facts.get("distribution_versions") or ()}
    known = _KNOWN.get(str(facts["os"]["key"]))
    found = read or {(known, kind) for kind in KINDS if known}
    ordered: list[str] = []
    versions = {each[0] for each in found}
    while versions:
        ordered.insert(0, newest(versions))
        versions.discard(ordered[0])
    return [Archived(version, kind) for version in ordered for kind in KINDS if (version, kind) in found]


def builds(system: str, version: str, modules: str, kernel: str) -> bool:
    """Return whether nothing is known that keeps a distribution's driver from being built for a kernel."""
    if modules not in _CALLS.get((system, version), ()):
        return True
    release = _KERNEL.match(kernel)
    numbers = tuple(map(int, re.findall(r"\d+", release.group()))) if release else ()
    in_series = any(numbers[: len(first) - 1] == first[:-1] and numbers >= first for first in _EXCLUDE_BARS)
    return not (in_series or numbers >= _EXCLUDE_BARS_SINCE)
