# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the output of a pod. Pure functions.

The output is not trusted: only known fields, numbers within bounds and short texts are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from .figures import FIGURES, Reading

# Same value as in roles/gpu_benchmark/files/measure.py.
MARK = "GPU_BENCHMARK "
MAX_REPORT_LENGTH = 16 * 1024
_UUID = re.compile(r"GPU-[0-9A-Za-z-]{1,64}")
_FASTEST = 1e18
_NOTES, _NOTE = 8, 300
# Name -> (lowest, highest) plausible value.
FACTS = {
    "pcie_generation": (1, 20),
    "pcie_generation_max": (1, 20),
    "pcie_width": (1, 64),
    "pcie_width_max": (1, 64),
    "throttle_reasons": (0, 2**64 - 1),
    "ecc_uncorrected": (0, 1e15),
    "remap_pending": (0, 1),
    "remap_failure": (0, 1),
    "temperature_c": (-50, 200),
    "sm_clock_mhz": (0, 1e5),
    "power_w": (0, 1e5),
    "memory_used_before_mib": (0, 1e9),
    "torch_import_s": (0, 1e5),
}


def read_log(log: str) -> Reading | None:
    """Return the report in a log, None if there is none yet. An invalid report has a complaint and no figures."""
    lines = [line for line in log.splitlines() if line.startswith(MARK)]
    if not lines:
        return None
    written = lines[-1][len(MARK) :]
    if len(written) > MAX_REPORT_LENGTH:
        return Reading(complaint="its report is too long")
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return Reading(complaint="its report is not valid JSON")
    if not isinstance(found, dict):
        return Reading(complaint="its report is not a JSON object")
    device, uuid = found.get("device"), found.get("uuid")
    figures = read_figures(found.get("figures"))
    return Reading(
        uuid=uuid if isinstance(uuid, str) and _UUID.fullmatch(uuid) else "",
        gpus=int(_number(found.get("gpus"), 0, 1024) or 0),
        device=device if device in ("cuda", "cpu") and figures else "",
        torch=_text(found.get("torch"), 40),
        figures=figures,
        facts=read_facts(found.get("facts")),
        notes=tuple(_notes(found.get("notes"))),
    )


def read_figures(value: Any) -> dict[str, float]:
    """Return the plausible figures in a report."""
    return _numbers(value, {each.key: (1e-3, _FASTEST) for each in FIGURES})


def read_facts(value: Any) -> dict[str, float]:
    """Return the plausible facts in a report."""
    return _numbers(value, FACTS)


def last_lines(log: str, lines: int = 5) -> str:
    """Return the end of a pod's output on one line."""
    return " / ".join(
        _text(line.strip(), _NOTE) for line in [each for each in log.splitlines() if each.strip()][-lines:]
    )


def _notes(value: Any) -> list[str]:
    return [_text(each, _NOTE) for each in value[:_NOTES] if _text(each, _NOTE)] if isinstance(value, list) else []


def _numbers(value: Any, bounds: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    known = value if isinstance(value, dict) else {}
    found = {name: _number(known.get(name), low, high) for name, (low, high) in bounds.items()}
    return {name: number for name, number in found.items() if number is not None}


def _number(value: Any, low: float, high: float) -> float | None:
    """Return a number within bounds, else None; nan is never within bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if low <= value <= high else None


def _text(value: Any, letters: int) -> str:
    return "".join(letter for letter in value if letter.isprintable())[:letters] if isinstance(value, str) else ""
