# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse nvidia-smi's values, and define the common form of a GPU. Unknown values are None."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# No host has more; other output is not from nvidia-smi.
MOST_GPUS = 4096

# Colors and cursor movements, window titles, character set selection.
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()][A-Z0-9])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\ufffe\uffff\ud800-\udfff]")
# 610 appends this to values of deprecated names.
_REMARK = re.compile(r"\s\[Deprecated[^\]]{0,200}\]$")
NUMBER = re.compile(r"([-+]?\d{1,15}(?:\.\d{1,6})?)(?:\s*([A-Za-z%]+))?")
# Old drivers write the bus with four digits in the kernel log.
_BUS_ID = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?(?:00)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
_MIB = {"MiB": 1.0, "MB": 1.0, "GiB": 1024.0, "KiB": 1 / 1024, None: 1.0}

_UNKNOWN = {
    "",
    "n/a",
    "none",
    "unknown",
    "not supported",
    "not available",
    "not found",
    "invalid argument",
    "insufficient permissions",
    "function not found",
    "requested functionality has been deprecated",
    "gpu access blocked by the operating system",
    "in use by another client",
    "corrupted inforom",
    "no data",
    "not ready",
    "invalid state",
}
# Messages in place of a value that mean a problem of the GPU itself.
WHOLE_GPU = {"gpu is lost", "gpu requires reset", "reset required"}
FAULTS = {*WHOLE_GPU, "unknown error", "err!", "timeout"}

# All keys of a GPU in the result, with their values if nothing is known.
_EMPTY: dict[str, Any] = {
    "index": None,
    "minor_number": None,
    "uuid": None,
    "name": None,
    "brand": None,
    "architecture": None,
    "pci_bus_id": None,
    "memory_total_mib": None,
    "memory_used_mib": None,
    "compute_mode": None,
    "persistence_mode": None,
    "mig": {"capable": None, "current": None, "pending": None, "devices": []},
    "ecc": {"current": None, "pending": None, "uncorrected_aggregate": None},
    "retired_or_remapped": {"pending": None, "failure": None},
    "fabric": {"state": None, "status": None},
    "temperature_c": None,
    "power_draw_w": None,
    "power_limit_w": None,
    "utilization_gpu_pct": None,
    "processes": [],
    "problems": [],
}
_EMPTY_MIG = {"index": None, "gi": None, "ci": None, "profile": None, "uuid": None, "memory_total_mib": None}


@dataclass
class Reading:
    """Parsed output of nvidia-smi; ``kind`` is its format, ``message`` if it contains no data.

    ``attached``: the number of GPUs it mentions; ``complete``: it is not truncated; ``messages``: lines that are not
    data; ``topology``: the matrix of topo -m; ``cuda_failed``: nvidia-smi could not load libcuda.
    """

    kind: str
    driver_version: str | None = None
    cuda_version: str | None = None
    attached: int | None = None
    gpus: list[dict[str, Any]] = field(default_factory=list)
    complete: bool = False
    messages: list[str] = field(default_factory=list)
    topology: dict[str, Any] | None = None
    cuda_failed: bool = False


def empty_gpu(**known: Any) -> dict[str, Any]:
    gpu = {key: dict(value) if isinstance(value, dict) else value for key, value in _EMPTY.items()}
    gpu["mig"]["devices"], gpu["processes"], gpu["problems"] = [], [], []
    return {**gpu, **known}


def empty_mig(**known: Any) -> dict[str, Any]:
    return {**_EMPTY_MIG, **known}


def clean(text: str) -> str:
    """Return the text with uniform line ends and without colors and control characters."""
    return _CONTROL.sub("", _ANSI.sub("", text)).replace("\r\n", "\n").replace("\r", "\n")


def short_lines(text: str) -> Iterator[str]:
    """Yield the lines, except those too long for a list or table."""
    return (line for line in text.split("\n") if len(line) < 1000)


def bare(raw: str | None) -> str:
    text = (raw or "").strip()
    return text[1:-1].strip() if text.startswith("[") and text.endswith("]") else text


def word(raw: str | None) -> str | None:
    """Return a value as printed, None if it means "unknown".

    CSV puts texts for "unknown" in brackets, including new ones. A remark after the value is removed.
    """
    text = _REMARK.sub("", (raw or "").strip())
    lowered = text.lower()
    bracketed = text.startswith("[") and text.endswith("]")
    return None if bracketed or lowered in _UNKNOWN or lowered in FAULTS else text


def is_failure(raw: str | None) -> bool:
    """Return whether the text is an error in place of a value."""
    return bare(raw).lower() in FAULTS


def number(raw: str | None) -> float | None:
    match = NUMBER.fullmatch(word(raw) or "")
    return float(match[1]) if match else None


def whole(raw: str | None) -> int | None:
    value = number(raw)
    return int(value) if value is not None else None


def mib(raw: str | None) -> int | None:
    """Return a memory size in MiB; without a unit (``nounits``), the number is in MiB."""
    match = NUMBER.fullmatch(word(raw) or "")
    return int(float(match[1]) * _MIB[match[2]]) if match and match[2] in _MIB else None


def yes(raw: str | None) -> bool | None:
    text = (word(raw) or "").lower()
    return {"yes": True, "no": False, "1": True, "0": False, "true": True, "false": False}.get(text)


def mode(raw: str | None) -> str | None:
    """Return ``Enabled`` or ``Disabled``; tables print On and Off, and a star for a pending change."""
    text = (word(raw) or "").lower().rstrip("*")
    return {"on": "Enabled", "off": "Disabled", "enabled": "Enabled", "disabled": "Disabled"}.get(text)


def bus_id(raw: str | None) -> str | None:
    """Return a PCI address in upper case with an 8-digit domain; Linux uses lower case and 4 digits."""
    match = _BUS_ID.fullmatch(word(raw) or "")
    return f"{(match[1] or '').zfill(8)}:{match[2]}:{match[3]}.{match[4]}".upper() if match else None


def version(raw: str | None) -> str | None:
    text = word(raw) or ""
    return text if re.fullmatch(r"\d+(?:\.\d+)+", text) else None


def either(*values: bool | None) -> bool | None:
    """Return True if any value is true, False if any is false, else None."""
    known = [value for value in values if value is not None]
    return any(known) if known else None
