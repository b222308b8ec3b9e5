# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which drivers a distribution's own archive has, and for which kernels they are known not to build. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from ...module_utils._versions import compare_versions
from .fit import KINDS, OPEN

# Of hosts whose apt does not know the archive's packages (yet): what the stable releases have.
_KNOWN = {"Debian 12": "535.261.03", "Debian 13": "550.163.01"}
# The first kernels with the argument exclude_bars of pci_resize_resource (commit 337b1b566db0), for which the call of
# older drivers does not compile: of mainline, and of each stable series that has it. Debian's 6.1.0-53 is 6.1.17x.
_EXCLUDE_BARS = ((6, 1, 0, 53), (6, 12, 97), (6, 18, 40))
_EXCLUDE_BARS_SINCE = (6, 19)
# Distribution and driver -> the kinds of modules that make this call; the proprietary ones of 550 don't.
_CALLS = {("Debian 12", "535.261.03"): KINDS, ("Debian 13", "550.163.01"): (OPEN,)}
_KERNEL = re.compile(r"[\d.]+(?:-\d+)?")


def archive_versions(facts: Mapping[str, Any]) -> list[str]:
    """Return the versions of drivers in the archive of a host's distribution, the oldest first."""
    read = {str(each["version"]) for each in facts.get("distribution_versions") or ()}
    known = _KNOWN.get(str(facts["os"]["key"]))
    return sorted(read or filter(None, [known]), key=functools.cmp_to_key(compare_versions))


def builds(system: str, version: str, modules: str, kernel: str) -> bool:
    """Return whether nothing is known that keeps a distribution's driver from being built for a kernel."""
    if modules not in _CALLS.get((system, version), ()):
        return True
    release = _KERNEL.match(kernel)
    numbers = tuple(map(int, re.findall(r"\d+", release.group()))) if release else ()
    in_series = any(numbers[: len(first) - 1] == first[:-1] and numbers >= first for first in _EXCLUDE_BARS)
    return not (in_series or numbers >= _EXCLUDE_BARS_SINCE)
