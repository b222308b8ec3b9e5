# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge the GPUs in several outputs of nvidia-smi into one ordered list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .faults import fault, problem_from_message
from .states import complaint
from .values import MOST_GPUS, Reading, bus_id, empty_gpu

_IDENTITY = ("pci_bus_id", "index", "uuid")


def merge(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    """Return one list of GPUs; values that an earlier reading lacks are taken from later ones, field by field.

    GPUs that only appear in error messages, and GPUs missing between others, are included.
    """
    known = _Gpus()
    for reading in readings:
        for gpu in reading.gpus:
            known.add(gpu)
    for line in dict.fromkeys(line[:1000] for reading in readings for line in reading.messages):
        found = complaint(line)
        if found:
            gpu = empty_gpu(
                index=found.index, pci_bus_id=bus_id(found.address), problems=[problem_from_message(found.words)]
            )
            known.add(gpu, only_known=not found.unreadable)
    attached = max([reading.attached or 0 for reading in readings], default=0)
    return known.in_order(attached, listed=any(reading.gpus for reading in readings))


class _Gpus:
    """GPUs by PCI address, index or UUID. Two GPUs may have the same UUID if it was masked."""

    def __init__(self) -> None:
        self._all: list[dict[str, Any]] = []
        self._by: dict[str, dict[Any, list[dict[str, Any]]]] = {key: {} for key in _IDENTITY}

    def add(self, gpu: dict[str, Any], only_known: bool = False) -> None:
        known = self._find(gpu)
        if known is None and only_known:
            return
        if known is None:
            known = empty_gpu()
            self._all.append(known)
        new = [key for key in _IDENTITY if known[key] is None and gpu[key] is not None]
        _fill(known, gpu)
        for key in new:
            self._by[key].setdefault(known[key], []).append(known)

    def _find(self, gpu: dict[str, Any]) -> dict[str, Any] | None:
        for key in _IDENTITY:
            for known in self._by[key].get(gpu[key], []):
                others = _IDENTITY if key != "pci_bus_id" else ()
                if all(None in (gpu[other], known[other]) or gpu[other] == known[other] for other in others):
                    return known
        return None

    def in_order(self, attached: int, listed: bool) -> list[dict[str, Any]]:
        """Return the GPUs by index; nvidia-smi numbers them in the order of PCI addresses.

        A GPU without an index gets the free one. ``listed``: an output lists GPUs, so that missing GPUs can be
        recognized.
        """
        if listed:
            self._number(attached)
            self._complete(attached)
        return sorted(self._all, key=lambda gpu: (gpu["index"] is None, gpu["index"] or 0, gpu["pci_bus_id"] or "~"))

    def _number(self, attached: int) -> None:
        gpus = self._all
        if attached > len(gpus):
            return
        by_address = sorted(gpus, key=lambda gpu: gpu["pci_bus_id"] or "~")
        if all(gpu["pci_bus_id"] and gpu["index"] in (None, place) for place, gpu in enumerate(by_address)):
            for place, gpu in enumerate(by_address):
                gpu["index"] = place
        free = sorted(set(range(len(gpus))) - {gpu["index"] for gpu in gpus})
        nameless = [gpu for gpu in gpus if gpu["index"] is None]
        if len(free) == len(nameless) == 1:
            nameless[0]["index"] = free[0]

    def _complete(self, attached: int) -> None:
        """Add the missing GPUs if all indexes of the others are known."""
        indices = {gpu["index"] for gpu in self._all}
        if None in indices or len(indices) < len(self._all):
            return
        total = max(attached, *(index + 1 for index in indices))
        missed = fault("gpu_silent", "nvidia-smi reports nothing about it")
        missing = sorted(set(range(min(total, MOST_GPUS))) - indices)
        self._all += [empty_gpu(index=index, problems=[missed]) for index in missing]


def _fill(known: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict):
            _fill(known[key], value)
        elif key == "devices":
            _fill_mig(known[key], value)
        elif key == "problems":
            known[key] = list(dict.fromkeys([*known[key], *value]))
        elif known[key] is None or known[key] == []:
            known[key] = list(value) if isinstance(value, list) else value


def _fill_mig(known: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    places = {device["index"]: device for device in known}
    for other in others:
        device = places.get(other["index"]) if other["index"] is not None else None
        if device is None:
            device = places[other["index"]] = dict(other)
            known.append(device)
        else:
            device.update({key: value for key, value in other.items() if device[key] is None})
