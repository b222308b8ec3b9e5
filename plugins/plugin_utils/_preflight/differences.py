# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find settings of an inventory that are missing in a Kubernetes document, whatever the notation. Pure.

Kubernetes writes durations as Go does (10m is 10m0s), quantities in their shortest form (1024Mi is 1Gi), and omits
empty values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from ...module_utils._cluster.quantities import read_quantity

_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h))+|0", re.ASCII)
_PART = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")
_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
# Fields that default to true: false differs from a missing field.
_TRUE_BY_DEFAULT = frozenset(
    (
        "cgroupsPerQOS",
        "cpuCFSQuota",
        "enableControllerAttachDetach",
        "enableDebuggingHandlers",
        "enableServer",
        "enableSystemLogHandler",
        "failCgroupV1",
        "failSwapOn",
        "localStorageCapacityIsolation",
        "makeIPTablesUtilChains",
        "registerNode",
        "serializeImagePulls",
    )
)


def differences(wanted: Any, there: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield path, wanted value and present value (None if missing) of each setting of ``wanted`` that differs."""
    if isinstance(wanted, Mapping) and isinstance(there, Mapping):
        for key, value in wanted.items():
            yield from differences(value, there.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(wanted, Mapping) and there is None:
        for key, value in wanted.items():
            yield from differences(value, None, f"{path}.{key}" if path else str(key))
    elif not _same(wanted, there) or (there is None and wanted is False and _may_default_to_true(path)):
        yield path, wanted, there


def _may_default_to_true(path: str) -> bool:
    return path in _TRUE_BY_DEFAULT or path.startswith("featureGates.")


def _same(wanted: Any, there: Any) -> bool:
    if there is None:
        return wanted in (None, "", 0, False) or wanted in ([], {})
    if isinstance(wanted, (list, tuple)) and isinstance(there, (list, tuple)):
        return len(wanted) == len(there) and all(not list(differences(one, other)) for one, other in zip(wanted, there))
    if isinstance(wanted, (list, tuple, Mapping)) or isinstance(there, (list, tuple, Mapping)):
        return False
    texts = _text(wanted), _text(there)
    return texts[0] == texts[1] or any(
        read(texts[0]) is not None and read(texts[0]) == read(texts[1]) for read in (read_duration, read_quantity)
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_duration(text: str) -> Fraction | None:
    """Return the seconds of a duration in Go's form, None if the text is none."""
    if not _DURATION.fullmatch(text):
        return None
    return sum((Fraction(number) * _UNITS[unit] for number, unit in _PART.findall(text)), Fraction(0))
