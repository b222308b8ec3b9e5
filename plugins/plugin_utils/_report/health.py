# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU health as tables: GPUs with a problem listed, healthy ones folded. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ...module_utils._words import counted
from .read import Report, dictionaries, number, text, texts
from .table import Cell, Fold, Row

_COLUMNS = ("GPU", "Health", "Temperature", "Memory used", "Power", "ECC errors", "PCI address, UUID")
_OF_A_NODE = ("Node", "GPUs", "Temperature", "Memory used", "Power", "ECC errors")
Gpu = tuple[str, dict[str, Any], int, dict[str, Any]]


def unhealthy_gpus(report: Report) -> tuple[tuple[str, ...], tuple[Row, ...], str, bool]:
    """Return columns and rows of unhealthy GPUs, the text if there are none, and whether all states are known."""
    gpus = list(_gpus(report))
    # An unreachable host is listed as such, not each of its GPUs.
    rows = [gpu for gpu in gpus if _reached(gpu) and gpu[3].get("healthy") is not True]
    rows.sort(key=lambda gpu: _word(gpu).state != "bad")
    unknown = sum(1 for gpu in gpus if not _reached(gpu))
    words = "The only GPU is healthy." if len(gpus) == 1 else f"All {len(gpus)} GPUs are healthy."
    if unknown:
        words = f"The state of {counted(unknown, 'GPU')} is unknown: hosts could not be reached."
    elif not gpus:
        words = "No host has reported a GPU."
    return _COLUMNS, tuple(map(_row, rows)), words, bool(gpus) and not unknown


def healthy_gpus(report: Report, fleet: bool) -> Fold:
    found = [gpu for gpu in _gpus(report) if _reached(gpu) and gpu[3].get("healthy") is True]
    label = counted(len(found), "healthy GPU")
    if not fleet:
        return Fold(label, _COLUMNS, tuple(map(_row, found)))
    nodes: dict[str, list[Gpu]] = {}
    for gpu in found:
        nodes.setdefault(gpu[0], []).append(gpu)
    rows = tuple(_node(name, gpus) for name, gpus in nodes.items())
    return Fold(f"{label} on {counted(len(nodes), 'node')}", _OF_A_NODE, rows)


def _gpus(report: Report) -> Iterable[Gpu]:
    for name, entry in report["hosts"].items():
        for place, device in enumerate(dictionaries(entry.get("devices"))):
            yield name, entry, place, device


def _reached(gpu: Gpu) -> bool:
    return gpu[1].get("reachable") is not False


def _word(gpu: Gpu) -> Cell:
    device = gpu[3]
    if not isinstance(device.get("healthy"), bool):
        return Cell("unknown", "unknown")
    if device["healthy"]:
        return Cell("healthy", "ok")
    return Cell("; ".join(texts(device.get("health"))) or "unhealthy", "bad")


def _row(gpu: Gpu) -> Row:
    name, _entry, place, device = gpu
    index, codes = number(device.get("index")), (text(device.get("pci_bus_id")), text(device.get("uuid")))
    return (
        Cell(f"{name} GPU {place if index is None else index}", below=text(device.get("name"))),
        _word(gpu),
        *_values([device]),
        Cell("", codes=tuple(filter(None, codes))),
    )


def _node(name: str, gpus: list[Gpu]) -> Row:
    devices = [gpu[3] for gpu in gpus]
    models = Counter(text(device.get("name")) or "unknown model" for device in devices)
    return Cell(name), Cell(", ".join(f"{n} {model}" for model, n in models.items())), *_values(devices)


def _values(devices: list[dict[str, Any]]) -> tuple[Cell, ...]:
    """Return temperature, memory, power and ECC errors of these GPUs combined; empty if no driver reports them."""
    heat = _known(devices, "temperature_c")
    span = f"{min(heat)}" if len(set(heat)) == 1 else f"{min(heat)} to {max(heat)}" if heat else ""
    used, total = _known(devices, "memory_used_mib"), _known(devices, "memory_total_mib")
    memory = f"{_gib(sum(used))} of {_gib(sum(total))} GiB" if used and total else ""
    draw, limit = _known(devices, "power_draw_w"), _known(devices, "power_limit_w")
    power = f"{sum(draw)}" + (f" of {sum(limit)}" if limit else "") + " W" if draw else ""
    errors = _known(devices, "ecc_uncorrected")
    ecc = Cell(str(sum(errors)) if errors else "", "warn" if any(errors) else "")
    return Cell(f"{span} °C" if span else ""), Cell(memory), Cell(power), ecc


def _known(devices: list[dict[str, Any]], key: str) -> list[int]:
    return [found for found in (number(device.get(key)) for device in devices) if found is not None]


def _gib(mib: int) -> str:
    gib = mib / 1024
    return f"{gib:.1f}" if 0.05 <= gib < 10 and gib != int(gib) else f"{gib:.0f}"
