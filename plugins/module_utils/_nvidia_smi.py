# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks nvidia-smi in several forms, recognises each answer by its content, and makes one picture of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.module_utils import _nvidia_smi_state as state
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import (
    CommandError,
    CommandNotFoundError,
    CommandTimeoutError,
    Result,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi_text import (
    csv_header,
    read_csv,
    read_list,
    read_table,
    read_version,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi_topology import read_topology
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi_tree import (
    TEXT_START,
    XML_START,
    read_text,
    read_xml,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi_values import (
    MOST_GPUS,
    Reading,
    bus_id,
    clean,
    empty_gpu,
)

_QUERY = (
    *("count", "index", "uuid", "name", "pci.bus_id", "driver_version", "memory.total", "memory.used"),
    *("persistence_mode", "compute_mode", "temperature.gpu", "power.draw", "power.limit", "utilization.gpu"),
    *("ecc.mode.current", "ecc.mode.pending", "ecc.errors.uncorrected.aggregate.total", "retired_pages.pending"),
    *("mig.mode.current", "mig.mode.pending"),
)
_BAD_FIELD = re.compile(r'Field "([^"]{1,80})" is not a valid field')
_LIST_LINE = re.compile(r"^GPU \d{1,4}: .* \(UUID: ", re.MULTILINE)


@dataclass(frozen=True)
class Attempt:
    """One call. ``rc`` is None when there was none to get; ``failure`` is the state its words stand for."""

    reading: Reading
    rc: int | None
    said: str
    failure: str

    @property
    def sound(self) -> bool:
        return bool(self.reading.gpus) and self.reading.complete and self.rc == 0


def read(text: str) -> Reading:
    """Total: every text is a Reading, whatever it was printed for; one without data has the kind V(message)."""
    reading = _recognised(clean(text))
    if len(reading.gpus) > MOST_GPUS:
        reading.gpus, reading.complete = reading.gpus[:MOST_GPUS], False
    return reading


def _recognised(text: str) -> Reading:
    header = csv_header(text)
    if XML_START in text:
        return read_xml(text)
    if TEXT_START in text:
        return read_text(text)
    if "| NVIDIA-SMI" in text:
        return read_table(text)
    if header is not None:
        return read_csv(text, header)
    if _LIST_LINE.search(text):
        return read_list(text)
    if "\tGPU0" in text:
        return read_topology(text)
    if "NVIDIA-SMI version" in text:
        return read_version(text)
    return Reading("message", messages=[line.strip() for line in text.split("\n") if line.strip()])


def merge(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    """One list of GPUs; what an earlier reading doesn't know is taken from a later one, field by field."""
    known = _Gpus()
    for reading in readings:
        for gpu in reading.gpus:
            known.add(gpu)
        for line in reading.messages:
            found = state.complaint(line[:1000])
            if found:
                index, address, words = found
                known.add(empty_gpu(index=index, pci_bus_id=bus_id(address), problems=[words]))
    attached = max([reading.attached or 0 for reading in readings], default=0)
    return known.in_order(attached)


class NvidiaSmi:
    """``run`` takes arguments and gives a Result, or raises a CommandError."""

    def __init__(self, run: Callable[[Sequence[str]], Result]) -> None:
        self._run = run
        self._attempts: list[Attempt] = []

    def facts(self, gather: Sequence[str]) -> dict[str, Any]:
        first = self._ask(["-q", "-x"])
        if not (first.sound and first.reading.attached == len(first.reading.gpus)):
            for ask in (self._query, lambda: self._ask(["-L"]), lambda: self._ask([])):
                if self._attempts[-1].failure in state.FINAL and not self._attempts[-1].reading.gpus:
                    break
                ask()
        elif "mig" in gather and any(gpu["mig"]["devices"] for gpu in first.reading.gpus):
            # Only -L has the profiles, and the UUIDs of MIG devices with every driver.
            self._ask(["-L"])
        readings = [attempt.reading for attempt in self._attempts]
        gpus = merge(readings)
        found = self._state(gpus)
        topology = self._topology(found) if "topology" in gather else None
        attached = max([reading.attached or 0 for reading in readings] + [len(gpus)])
        return {
            "state": found,
            "message": self._message(found, gpus, attached),
            "rc": self._decisive(found).rc,
            "advice": state.ADVICE[found],
            "source": list(dict.fromkeys(r.kind for r in readings if r.gpus or r.driver_version)),
            "driver_version": next((r.driver_version for r in readings if r.driver_version), None),
            "cuda_version": next((r.cuda_version for r in readings if r.cuda_version), None),
            "count": attached,
            "gpus": [_finished(gpu, gather) for gpu in gpus],
            "topology": topology,
        }

    def _topology(self, found: str) -> dict[str, Any] | None:
        if found not in state.FINAL:
            # Not every driver and platform knows it, which says nothing about the GPUs.
            return self._ask(["topo", "-m"]).reading.topology
        return None

    def _ask(self, arguments: Sequence[str]) -> Attempt:
        try:
            result = self._run(arguments)
        except CommandNotFoundError as error:
            attempt = Attempt(Reading("message"), None, str(error), state.NOT_INSTALLED)
        except CommandTimeoutError as error:
            reading = read(str(error.fields.get("stdout", "")))
            reading.complete = False
            attempt = Attempt(reading, None, str(error), state.TIMEOUT)
        except CommandError as error:
            attempt = Attempt(Reading("message"), error.fields.get("rc"), str(error), state.UNREADABLE)
        else:
            reading = read(result.stdout)
            said = "\n".join([*reading.messages, result.stderr.strip()]).strip()
            failure = state.OK if reading.gpus and result.rc == 0 else state.failure(said, result.rc)
            attempt = Attempt(reading, result.rc, said, failure)
        self._attempts.append(attempt)
        return attempt

    def _query(self) -> None:
        fields = list(_QUERY)
        while fields:
            attempt = self._ask([f"--query-gpu={','.join(fields)}", "--format=csv"])
            unknown = _BAD_FIELD.search(attempt.said)
            if not unknown or unknown[1] not in fields:
                return
            # This driver is older, or newer, than that field.
            fields.remove(unknown[1])
            self._attempts.pop()

    def _state(self, gpus: list[dict[str, Any]]) -> str:
        attempts = self._attempts
        failures = [attempt.failure for attempt in attempts if attempt.failure not in (state.OK, state.UNREADABLE)]
        if not any(attempt.reading.gpus for attempt in attempts):
            return failures[0] if failures else state.UNREADABLE
        if not any(attempt.sound for attempt in attempts):
            return next((failure for failure in failures if failure in (state.CRASHED, state.TIMEOUT)), state.DEGRADED)
        attached = max(attempt.reading.attached or 0 for attempt in attempts)
        partial = any(attempt.reading.gpus and not attempt.sound for attempt in attempts)
        known = all(gpu["index"] is not None and gpu["name"] and (gpu["uuid"] or gpu["pci_bus_id"]) for gpu in gpus)
        faulty = any(gpu["problems"] for gpu in gpus)
        return state.DEGRADED if failures or partial or faulty or not known or attached > len(gpus) else state.OK

    def _decisive(self, found: str) -> Attempt:
        return next((attempt for attempt in self._attempts if attempt.failure == found), self._attempts[0])

    def _message(self, found: str, gpus: list[dict[str, Any]], attached: int) -> str | None:
        if found == state.OK:
            return None
        said = [self._decisive(found).said, *(attempt.said for attempt in self._attempts)]
        words = next((text for text in said if text), "")
        notes = [words] if words else []
        if gpus and attached > len(gpus):
            notes.append(f"{attached} GPUs are attached, {len(gpus)} could be read.")
        for gpu in gpus:
            if gpu["problems"]:
                notes.append(f"GPU {gpu['index']} ({gpu['pci_bus_id']}): {', '.join(gpu['problems'])}")
        if not notes:
            notes = ["the output was cut off" if gpus else "there was no output"]
        return "\n".join(notes)[:2000]


class _Gpus:
    """GPUs that are known by PCI address, by UUID, or, where neither is given, by index."""

    def __init__(self) -> None:
        self._all: list[dict[str, Any]] = []
        self._by: dict[str, dict[Any, dict[str, Any]]] = {"pci_bus_id": {}, "uuid": {}, "index": {}}

    def add(self, gpu: dict[str, Any]) -> None:
        known = self._find(gpu)
        if known is None:
            known = empty_gpu()
            self._all.append(known)
        _fill(known, gpu)
        for key, found in self._by.items():
            if known[key] is not None:
                found.setdefault(known[key], known)

    def _find(self, gpu: dict[str, Any]) -> dict[str, Any] | None:
        for key in ("pci_bus_id", "uuid"):
            if gpu[key] in self._by[key]:
                return self._by[key][gpu[key]]
        known = self._by["index"].get(gpu["index"])
        if known and all(gpu[key] in (None, known[key]) or known[key] is None for key in ("pci_bus_id", "uuid")):
            return known
        return None

    def in_order(self, attached: int) -> list[dict[str, Any]]:
        """By index, which nvidia-smi gives in the order of PCI addresses; one without gets the place left for it."""
        gpus = self._all
        by_address = sorted(gpus, key=lambda gpu: gpu["pci_bus_id"] or "~")
        fits = all(gpu["pci_bus_id"] and gpu["index"] in (None, place) for place, gpu in enumerate(by_address))
        if fits and attached <= len(gpus):
            for place, gpu in enumerate(by_address):
                gpu["index"] = place
            return by_address
        free = sorted(set(range(len(gpus))) - {gpu["index"] for gpu in gpus})
        nameless = [gpu for gpu in gpus if gpu["index"] is None]
        if len(free) == len(nameless) == 1 and attached <= len(gpus):
            nameless[0]["index"] = free[0]
        return sorted(gpus, key=lambda gpu: (gpu["index"] is None, gpu["index"] or 0, gpu["pci_bus_id"] or "~"))


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


def _finished(gpu: dict[str, Any], gather: Sequence[str]) -> dict[str, Any]:
    devices = [{key: value for key, value in device.items() if key != "index"} for device in gpu["mig"]["devices"]]
    shown = {**gpu, "mig": {**gpu["mig"], "devices": devices}, "healthy": not gpu["problems"]}
    if "processes" not in gather:
        shown["processes"] = []
    return shown
