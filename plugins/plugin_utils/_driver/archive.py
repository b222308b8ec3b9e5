# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drivers in a distribution's own archive, and kernels for which they are known not to build. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from ...module_utils._versions import compare_versions
from .fit import KINDS, OPEN

# Versions in stable releases, for hosts whose apt doesn't know the archive's packages (yet).
_KNOWN = {"Debian 12": "535.261.03", "Debian 13": "550.163.01"}
# The first kernels in which pci_resize_resource has the argument exclude_bars (commit 337b1b566db0), so that calls in
# older drivers don't compile: stable series, then mainline. Debian's 6.1.0-53 is 6.1.17x.
_EXCLUDE_BARS = ((6, 1, 0, 53), (6, 12, 97), (6, 18, 40))
_EXCLUDE_BARS_SINCE = (6, 19)
# (distribution, driver) -> kinds of modules with this call; the proprietary ones of 550 don't have it.
_CALLS = {("Debian 12", "535.261.03"): KINDS, ("Debian 13", "550.163.01"): (OPEN,)}
_KERNEL = re.compile(r"[\d.]+(?:-\d+)?")


def archive_versions(facts: Mapping[str, Any]) -> list[str]:
    """Return the driver versions in the archive of a host's distribution, oldest first."""
    read = {str(each["version"]) for each in facts.get("distribution_versions") or ()}
    known = _KNOWN.get(str(facts["os"]["key"]))
    return sorted(read or filter(None, [known]), key=functools.cmp_to_key(compare_versions))


def builds(system: str, version: str, modules: str, kernel: str) -> bool:
    """Return whether a distribution's driver can be built for a kernel, as far as is known."""
    if modules not in _CALLS.get((system, version), ()):
        return True
    release = _KERNEL.match(kernel)
    numbers = tuple(map(int, re.findall(r"\d+", release.group()))) if release else ()
    in_series = any(numbers[: len(first) - 1] == first[:-1] and numbers >= first for first in _EXCLUDE_BARS)
    return not (in_series or numbers >= _EXCLUDE_BARS_SINCE)
