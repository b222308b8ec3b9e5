# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare GPUs of the same name and memory, and find the likely cause if one is slower. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .figures import FIGURES, Figure, Measurement

SLOW = 0.9
_HOST = "host_to_device_bytes_per_s"
# Bits of clocks_event_reasons.active (nvml.h, nvmlClocksEventReason*).
_POWER_CAP, _HARDWARE, _THERMAL, _BRAKE, _SETTING, _SYNC = 0x4, 0x8, 0x20 | 0x40, 0x80, 0x2, 0x10
# Most GPUs reach their power limit under full load, so these bits only count if most peers do not have them.
_USUAL = (_POWER_CAP, _SETTING, _SYNC)
_OTHER_PROCESS_MIB = 1024


@dataclass(frozen=True)
class PeerWarning:
    """A warning about the GPUs ``uuids``; ``figures`` are the keys of figures that are slow for the same reason."""

    uuids: tuple[str, ...]
    figures: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Difference:
    """One figure that differs from the peers'. Figures with equal ``subject`` and ``cause`` are reported together."""

    uuids: tuple[str, ...]
    figure: str
    subject: str
    values: str
    cause: str


def compare(measurements: Iterable[Measurement]) -> list[PeerWarning]:
    """Return warnings about GPUs that differ from their peers. Figures measured on a CPU have no peers."""
    together: dict[tuple[tuple[str, ...], str, str], list[Difference]] = {}
    for group in _groups(measurements):
        for figure in FIGURES:
            for found in _compare([each for each in group if figure.key in each.reading.figures], figure):
                together.setdefault((found.uuids, found.subject, found.cause), []).append(found)
    return [
        PeerWarning(
            uuids, tuple(each.figure for each in same), f"{subject}: {', '.join(each.values for each in same)}. {cause}"
        )
        for (uuids, subject, cause), same in together.items()
    ]


def count_peers(measurements: Iterable[Measurement]) -> dict[str, int]:
    """Return UUID -> number of peers of its figures (the lowest if they differ), 0 for a CPU."""
    counts = {}
    for group in _groups(measurements):
        for each in group:
            having = [sum(key in other.reading.figures for other in group) - 1 for key in each.reading.figures]
            counts[each.gpu.uuid] = min(having, default=0)
    return counts


def _groups(measurements: Iterable[Measurement]) -> Iterable[list[Measurement]]:
    groups: dict[tuple[str, int | None], list[Measurement]] = {}
    for each in measurements:
        if each.reading.device == "cuda":
            groups.setdefault((each.gpu.name, each.gpu.memory_mib), []).append(each)
    return groups.values()


def _compare(peers: Sequence[Measurement], figure: Figure) -> Iterator[Difference]:
    if len(peers) == 2:
        slow, fast = sorted(peers, key=lambda each: each.reading.figures[figure.key])
        if _value(slow, figure) < SLOW * _value(fast, figure):
            values = f"{figure.name} {figure.format(_value(slow, figure))} and {figure.format(_value(fast, figure))}"
            subject = f"{slow.gpu.label} and {fast.gpu.label} ({slow.gpu.name}) differ"
            both = f"There are only two of them, so check both. {slow.gpu.label}: {cause(slow, figure, [fast])}"
            yield Difference((slow.gpu.uuid, fast.gpu.uuid), figure.key, subject, values, both)
    elif len(peers) > 2:
        for each in peers:
            value = _value(each, figure)
            others = [other for other in peers if other is not each]
            usual = statistics.median(_value(other, figure) for other in others)
            if value < SLOW * usual:
                values = f"{figure.name} {figure.format(value)} ({_percent(value / usual)})"
                subject = f"{each.gpu.label} ({each.gpu.name}) is slower than the median of its peers"
                yield Difference((each.gpu.uuid,), figure.key, subject, values, cause(each, figure, others))


def cause(slow: Measurement, figure: Figure, others: Sequence[Measurement]) -> str:
    """Return the likely cause of a slow figure and what to check, from values read under load."""
    reasons = _reasons(slow) or 0
    known = [found for found in map(_reasons, others) if found is not None]
    for bit in _USUAL:
        if known and 2 * sum(bool(found & bit) for found in known) >= len(known):
            reasons &= ~bit
    if figure.key == _HOST:
        # A copy needs neither the GPU's clocks nor its power.
        return next(_link_causes(slow, others, reasons & (_HARDWARE | _BRAKE)))
    return next(_causes(slow, reasons))


def _reasons(measured: Measurement) -> int | None:
    found = measured.reading.facts.get("throttle_reasons")
    return None if found is None else int(found)


def _link_causes(slow: Measurement, others: Sequence[Measurement], reasons: int) -> Iterator[str]:
    own = _link_of(slow.reading.facts)
    links = sorted(link for link in (_link_of(other.reading.facts) for other in others) if link)
    usual = links[(len(links) - 1) // 2] if links else None
    if own and usual and own[0] < usual[0]:
        links_differ = f"Its PCIe link is {_format_link(own)} under load, those of its peers {_format_link(usual)}"
        yield f"{links_differ}: check that the card is seated well, its riser and its slot."
    yield from _hardware_causes(reasons)
    yield from _memory_in_use(slow)
    yield "No cause was found: compare its slot and its PCIe link with those of the others."


def _causes(slow: Measurement, reasons: int) -> Iterator[str]:
    facts = slow.reading.facts
    if reasons & _THERMAL:
        yield f"It was slowed down because it was too hot{_read(slow, 'temperature_c', ' °C')}: check its cooling."
    yield from _hardware_causes(reasons)
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
    yield from _memory_in_use(slow)
    if reasons & _SYNC:
        yield "It is in a group of GPUs with common clocks (sync boost), and the slowest one sets them."
    clock = _read(slow, "sm_clock_mhz", " MHz")
    yield f"No cause was found: compare its clock{clock}, power and temperature with those of the others."


def _hardware_causes(reasons: int) -> Iterator[str]:
    if reasons & _BRAKE:
        yield "The power supply asked it to slow down (power brake): check power cables and the power supply."
    if reasons & _HARDWARE:
        yield "The hardware slowed it down (temperature or power): check its cooling and its power cables."


def _memory_in_use(slow: Measurement) -> Iterator[str]:
    used = slow.reading.facts.get("memory_used_before_mib", 0)
    if used > _OTHER_PROCESS_MIB:
        yield f"Another process used {used:.0f} MiB of its memory: check nvidia-smi on the host."


def pcie(facts: Mapping[str, float]) -> str:
    """Return ``Gen3 x8 of Gen4 x16``, ``Gen4 x16`` for a link at full speed, empty if unknown."""
    links = (_link_of(facts, end) for end in ("", "_max"))
    now, most = (_format_link(link) if link else "" for link in links)
    return (now if now == most else f"{now} of {most}") if now and most else ""


def _link_of(facts: Mapping[str, float], end: str = "") -> tuple[float, float, float] | None:
    """Return (speed, generation, width), None if unknown. Each generation doubles the speed."""
    generation, width = facts.get(f"pcie_generation{end}"), facts.get(f"pcie_width{end}")
    return None if generation is None or width is None else (2**generation * width, generation, width)


def _format_link(link: tuple[float, float, float]) -> str:
    _speed, generation, width = link
    return f"Gen{generation:.0f} x{width:.0f}"


def _read(measured: Measurement, fact: str, unit: str) -> str:
    value = measured.reading.facts.get(fact)
    return "" if value is None else f" ({value:.0f}{unit})"


def _value(measured: Measurement, figure: Figure) -> float:
    return measured.reading.figures[figure.key]


def _percent(share: float) -> str:
    # Truncate: 89.96 % must not be shown as 90 %.
    return f"{int(share * 100)} %"
