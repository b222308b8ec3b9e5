# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of each GPU on the page, and the number of GPUs in each state. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...module_utils._words import counted
from .read import Report, dictionaries, dictionary, number, text

# State -> its label. The page also uses a color, a pattern and a sign, so that colors are not required.
WORDS = {
    "verified": "verified",
    "in_use": "in use",
    "shared": "shared",
    "unhealthy": "unhealthy",
    "unverified": "not verified",
    "missing": "not found",
    "unknown": "unknown",
}
# State in a report -> state on the page, if the GPU is healthy.
_KEPT = {"proven": "verified", "in_use": "in_use"}


@dataclass(frozen=True)
class Share:
    """The number of GPUs in a state."""

    state: str
    number: int
    words: str


def gpu_state(device: Mapping[str, Any], reachable: bool) -> str:
    if not reachable:
        return "unknown"
    if device.get("healthy") is False:
        return "unhealthy"
    return _KEPT.get(text(device.get("state")), "unverified")


def count_gpus(report: Report) -> dict[str, int]:
    """Return the number of GPUs in each state; the total includes GPUs that hosts lack."""
    counts: Counter[str] = Counter()
    for entry in report["hosts"].values():
        reachable = entry.get("reachable") is not False
        devices = dictionaries(entry.get("devices"))
        counts.update(gpu_state(device, reachable) for device in devices)
        expected = number(dictionary(entry.get("gpus")).get("expected")) or 0
        counts["missing" if reachable else "unknown"] += max(0, expected - len(devices))
    return {state: counts[state] for state in WORDS if counts[state]}


def shares(counts: Mapping[str, int]) -> Iterator[Share]:
    """Yield the shares for "6 of 9 GPUs verified, 2 in use, 1 unhealthy"; nothing without GPUs."""
    whole = sum(counts.values())
    if whole:
        good = counts.get("verified", 0)
        yield Share("verified", good, f"{good} of {counted(whole, 'GPU')} verified")
    for state, amount in counts.items():
        if state != "verified":
            yield Share(state, amount, f"{amount} {WORDS[state]}")


def count_states(states: Sequence[str], noun: str = "GPU") -> str:
    """Return a text such as "8 GPUs, all verified" or "8 GPUs: 7 verified, 1 in use"."""
    counts = Counter(states)
    whole = counted(len(states), noun)
    if len(counts) == 1:
        word = WORDS[states[0]]
        return f"{whole}, {word}" if len(states) == 1 else f"{whole}, all {word}"
    return f"{whole}: {', '.join(f'{counts[state]} {word}' for state, word in WORDS.items() if counts[state])}"
