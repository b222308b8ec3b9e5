# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares GPUs of the same name and memory, and names the likely cause if one is slower than the others. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from .figures import FIGURES, Figure, Measurement

SLOW = 0.9
_HOST = "host_to_device_bytes_per_s"
# Bits of clocks_event_reasons.active (nvml.h, nvmlClocksEventReason*).
_POWER_CAP, _HARDWARE, _THERMAL, _BRAKE, _SETTING, _SYNC = 0x4, 0x8, 0x20 | 0x40, 0x80, 0x2, 0x10
_USUAL = _POWER_CAP | _SETTING | _SYNC
_OTHER_PROCESS_MIB = 1024


@dataclass(frozen=True)
class Warned:
    """``uuids``: the GPUs that it is about; ``figures``: keys of what is slow for the same reason."""

    uuids: tuple[str, ...]
    figures: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Found:
    """One figure that differs. ``subject`` and ``cause`` are equal for figures that belong together."""

    uuids: tuple[str, ...]
    figure: str
    subject: str
    words: str
    cause: str


def compare(measurements: Iterable[Measurement]) -> list[Warned]:
    """What differs among peers. Figures of a CPU have no peers."""
    groups: dict[tuple[str, int | None], list[Measurement]] = {}
    for each in measurements:
        if each.reading.device == "cuda":
            groups.setdefault((each.gpu.name, each.gpu.memory_mib), []).append(each)
    together: dict[tuple[tuple[str, ...], str, str], list[Found]] = {}
    for group in groups.values():
        for figure in FIGURES:
            for found in _compare([each for each in group if figure.key in each.reading.figures], figure):
                together.setdefault((found.uuids, found.subject, found.cause), []).append(found)
    return [
        Warned(
            uuids, tuple(each.figure for each in same), f"{subject}: {', '.join(each.words for each in same)}. {cause}"
        )
        for (uuids, subject, cause), same in together.items()
    ]


def _compare(peers: Sequence[Measurement], figure: Figure) -> Iterator[Found]:
    if len(peers) == 2:
        slow, fast = sorted(peers, key=lambda each: each.reading.figures[figure.key])
        if _value(slow, figure) < SLOW * _value(fast, figure):
            words = f"{figure.name} {figure.format(_value(slow, figure))} and {figure.format(_value(fast, figure))}"
            subject = f"{slow.gpu.label} and {fast.gpu.label} ({slow.gpu.name}) differ"
            both = f"There are only two of them, so check both. {slow.gpu.label}: {cause(slow, figure, [fast])}"
            yield Found((slow.gpu.uuid, fast.gpu.uuid), figure.key, subject, words, both)
    elif len(peers) > 2:
        for each in peers:
            value = _value(each, figure)
            others = [other for other in peers if other is not each]
            usual = statistics.median(_value(other, figure) for other in others)
            if value < SLOW * usual:
                words = f"{figure.name} {figure.format(value)} ({_percent(value / usual)})"
                subject = f"{each.gpu.label} ({each.gpu.name}) is slower than the median of its peers"
                yield Found((each.gpu.uuid,), figure.key, subject, words, cause(each, figure, others))


def cause(slow: Measurement, figure: Figure, others: Sequence[Measurement]) -> str:
    """What most likely slows a figure, and what to check, by what was read under load.

    Most GPUs reach their power limit under full load: that the others reach theirs, too, explains nothing.
    """
    common = reduce(and_, (_reasons(other) for other in others), ~0)
    return next(_causes(slow, figure, _reasons(slow) & ~(common & _USUAL)))


def _reasons(measured: Measurement) -> int:
    return int(measured.reading.facts.get("throttle_reasons", 0))


def _causes(slow: Measurement, figure: Figure, reasons: int) -> Iterator[str]:
    facts = slow.reading.facts
    narrow = _less(facts.get("pcie_generation"), facts.get("pcie_generation_max"))
    narrow = narrow or _less(facts.get("pcie_width"), facts.get("pcie_width_max"))
    if figure.key == _HOST and narrow:
        ran = f" at {pcie(facts)}" if pcie(facts) else " below its maximum"
        yield f"Its PCIe link ran{ran} under load: check that the card is seated well, its riser and its slot."
    if reasons & _THERMAL:
        yield f"It was slowed down because it was too hot{_read(slow, 'temperature_c', ' °C')}: check its cooling."
    if reasons & _BRAKE:
        yield "The power supply asked it to slow down (power brake): check power cables and the power supply."
    if reasons & _HARDWARE:
        yield "The hardware slowed it down (temperature or power): check its cooling and its power cables."
    if reasons & _POWER_CAP:
        yield (
            f"Its power limit slowed it down{_read(slow, 'power_w', ' W')}: compare the limit with that of the others "
            "(nvidia-smi -q -d POWER)."
        )
    if reasons & _SETTING:
        yield "Its clocks are set to a lower value: compare them with those of the others (nvidia-smi -q -d CLOCK)."
    if facts.get("remap_pending") or facts.get("remap_failure") or facts.get("ecc_uncorrected"):
        yield (
            "Its memory has errors (uncorrected ECC errors or rows to be remapped): run gpulab.kubernetes.report, "
            "which says what to do."
        )
    if facts.get("memory_used_before_mib", 0) > _OTHER_PROCESS_MIB:
        used = f"{facts['memory_used_before_mib']:.0f} MiB"
        yield f"Another process used {used} of its memory: check nvidia-smi on the host."
    if reasons & _SYNC:
        yield "It is in a group of GPUs with common clocks (sync boost), and the slowest one sets them."
    clock = _read(slow, "sm_clock_mhz", " MHz")
    yield f"No cause was found: compare its clock{clock}, power and temperature with those of the others."


def pcie(facts: Mapping[str, float]) -> str:
    """``Gen3 x8 of Gen4 x16``, ``Gen4 x16`` for a link that is as fast as it can be, empty if it is not known."""
    now, most = (_link(facts.get(f"pcie_generation{end}"), facts.get(f"pcie_width{end}")) for end in ("", "_max"))
    return (now if now == most else f"{now} of {most}") if now and most else ""


def _link(generation: float | None, width: float | None) -> str:
    return "" if generation is None or width is None else f"Gen{generation:.0f} x{width:.0f}"


def _less(value: float | None, most: float | None) -> bool:
    return value is not None and most is not None and value < most


def _read(measured: Measurement, fact: str, unit: str) -> str:
    value = measured.reading.facts.get(fact)
    return "" if value is None else f" ({value:.0f}{unit})"


def _value(measured: Measurement, figure: Figure) -> float:
    return measured.reading.figures[figure.key]


def _percent(share: float) -> str:
    # 89.96 % is not 90 %.
    return f"{int(share * 100)} %"
