# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Query nvidia-smi in several formats, recognize each answer by its content, and merge the answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._command import CommandError, CommandNotFoundError, CommandTimeoutError, Result
from .._problem import Problem
from . import states as state
from .faults import DO_CUDA, fields
from .listing import is_list, read_list, read_version
from .merge import merge
from .query import TEXT_START, XML_START, read_text, read_xml
from .query_csv import csv_header, read_csv
from .table import TABLE_START, read_table
from .topology import read_topology
from .values import MOST_GPUS, Reading, clean

# Fields of one group were introduced with the same driver version.
_QUERY = (
    ("count", "index", "uuid", "name", "pci.bus_id", "driver_version", "memory.total", "memory.used"),
    ("persistence_mode", "compute_mode", "temperature.gpu", "power.draw", "power.limit", "utilization.gpu"),
    ("ecc.mode.current", "ecc.mode.pending", "ecc.errors.uncorrected.aggregate.total"),
    ("retired_pages.pending",),
    ("mig.mode.current", "mig.mode.pending"),
    ("remapped_rows.pending", "remapped_rows.failure"),
    ("fabric.state", "fabric.status"),
    ("gpu_recovery_action",),
)
# The messages for the exit statuses 8 and 10 have three lines.
_WRAPPED = re.compile(
    r"insufficiently powered\.\nThis may be [^\n]{1,80}\nattached, or [^\n]{1,80}"
    r"|: The NVIDIA kernel\n(?:(?:[^\n:]{1,80}\n){0,3}?[^\n:]{1,80}this issue\.|[^\n:]{1,80})"
)
_BAD_FIELD = re.compile(r'Field "([^"]{1,80})" is not a valid field')


@dataclass(frozen=True)
class Attempt:
    """One call of nvidia-smi. ``rc`` is None if it did not finish; ``failure`` is the state that its message means."""

    reading: Reading
    rc: int | None
    said: str
    failure: str

    @property
    def sound(self) -> bool:
        return bool(self.reading.gpus) and self.reading.complete and self.rc == 0


def read(text: str) -> Reading:
    """Parse any output of nvidia-smi; output without data has the kind ``message``."""
    reading = _recognised(_WRAPPED.sub(lambda match: match[0].replace("\n", " "), clean(text)))
    if max(len(reading.gpus), reading.attached or 0) > MOST_GPUS:
        reading.gpus, reading.attached, reading.complete = reading.gpus[:MOST_GPUS], None, False
    return reading


def _recognised(text: str) -> Reading:
    if XML_START in text:
        return read_xml(text)
    if TEXT_START in text:
        return read_text(text)
    if TABLE_START in text:
        return read_table(text)
    header = csv_header(text)
    if header is not None:
        return read_csv(text, header)
    if is_list(text):
        return read_list(text)
    if "\tGPU0" in text:
        return read_topology(text)
    if "NVIDIA-SMI version" in text:
        return read_version(text)
    return Reading("message", messages=[line.strip() for line in text.split("\n") if line.strip()])


class NvidiaSmi:
    """Reads the GPUs. ``run`` takes arguments, and returns a Result or raises CommandError."""

    def __init__(self, run: Callable[[Sequence[str]], Result]) -> None:
        self._run = run
        self._attempts: list[Attempt] = []
        self._known: dict[str, Reading] = {}

    def facts(self, gather: Sequence[str]) -> dict[str, Any]:
        first = self._ask(["-q", "-x"])
        if not (first.sound and first.reading.attached == len(first.reading.gpus)):
            for ask in (self.query, lambda: self._ask(["-L"]), lambda: self._ask([])):
                last = self._attempts[-1]
                if last.failure == state.TIMEOUT or (last.failure in state.FINAL and not last.reading.gpus):
                    break
                ask()
        elif "mig" in gather and any(gpu["mig"]["devices"] for gpu in first.reading.gpus):
            # Only -L prints the profiles, and the UUIDs of MIG devices with every driver.
            self._ask(["-L"])
        readings = list({id(attempt.reading): attempt.reading for attempt in self._attempts}.values())
        gpus = merge(readings)
        host = self._host_problems(readings)
        found = self._state(gpus)
        if host and found == state.OK:
            found = state.DEGRADED
        topology = self._topology(found) if "topology" in gather else None
        attached = max([reading.attached or 0 for reading in readings] + [len(gpus)])
        return {
            "state": found,
            "message": self._message(found, gpus, attached, host),
            "rc": self._decisive(found).rc,
            "advice": self._advice(found, gpus, host),
            "problems": [each.what for each in host],
            "source": list(dict.fromkeys(r.kind for r in readings if r.gpus or r.driver_version)),
            "driver_version": next((r.driver_version for r in readings if r.driver_version), None),
            "cuda_version": next((r.cuda_version for r in readings if r.cuda_version), None),
            "count": attached,
            "gpus": [_finished(gpu, gather) for gpu in gpus],
            "topology": topology,
        }

    def _host_problems(self, readings: Sequence[Reading]) -> list[Problem]:
        """Return the problems that concern all GPUs although the driver works."""
        if any(each.cuda_failed for each in readings) and not any(each.cuda_version for each in readings):
            return [Problem("cuda_unavailable", "CUDA Version: ERR! (nvidia-smi can't load libcuda)", "", "", DO_CUDA)]
        return []

    def _topology(self, found: str) -> dict[str, Any] | None:
        if found not in state.FINAL:
            # Not every driver and platform supports it; that is no problem of the GPUs.
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
            # Identical output is parsed only once.
            reading = self._known.get(result.stdout) or read(result.stdout)
            self._known[result.stdout] = reading
            said = "\n".join([*reading.messages, result.stderr.strip()]).strip()
            failure = state.OK if reading.gpus and result.rc == 0 else state.failure(said, result.rc)
            if failure == state.UNREADABLE and reading.complete and reading.attached == 0:
                failure = state.NO_DEVICES
            attempt = Attempt(reading, result.rc, said, failure)
        self._attempts.append(attempt)
        return attempt

    def query(self) -> None:
        """Query CSV with all fields that this version of nvidia-smi knows."""
        groups = list(_QUERY)
        while groups:
            fields = [field for group in groups for field in group]
            attempt = self._ask([f"--query-gpu={','.join(fields)}", "--format=csv"])
            unknown = _BAD_FIELD.search(attempt.said)
            if not unknown or unknown[1] not in fields:
                return
            # This driver does not know the field, because it is older or newer.
            groups = [group for group in groups if unknown[1] not in group]
            self._attempts.pop()

    def _state(self, gpus: list[dict[str, Any]]) -> str:
        attempts = self._attempts
        failures = [attempt.failure for attempt in attempts if attempt.failure not in (state.OK, state.UNREADABLE)]
        if not any(attempt.reading.gpus for attempt in attempts):
            return failures[0] if failures else state.UNREADABLE
        sound = any(attempt.sound for attempt in attempts)
        ended_early = [failure for failure in failures if failure in (state.CRASHED, state.TIMEOUT)]
        if ended_early and not sound:
            return ended_early[0]
        kinds = [{each.kind for each in gpu["problems"]} & {state.LOST, state.RESET} for gpu in gpus]
        if all(kinds):
            return state.LOST if state.LOST in set().union(*kinds) else state.RESET
        attached = max(attempt.reading.attached or 0 for attempt in attempts)
        partial = any(attempt.reading.gpus and not attempt.sound for attempt in attempts)
        known = all(gpu["index"] is not None and gpu["name"] and (gpu["uuid"] or gpu["pci_bus_id"]) for gpu in gpus)
        well = sound and known and not partial and not failures and attached <= len(gpus)
        return state.OK if well and not any(gpu["problems"] for gpu in gpus) else state.DEGRADED

    def _decisive(self, found: str) -> Attempt:
        return next((attempt for attempt in self._attempts if attempt.failure == found), self._attempts[0])

    def _message(self, found: str, gpus: list[dict[str, Any]], attached: int, host: Sequence[Problem]) -> str | None:
        if found == state.OK:
            return None
        said = [self._decisive(found).said, *(attempt.said for attempt in self._attempts)]
        notes = [next((text for text in said if text), ""), *(each.what for each in host)]
        if gpus and attached > len(gpus):
            notes.append(f"{attached} GPUs are attached, but only {len(gpus)} could be read.")
        for gpu in gpus:
            unsaid = [each.what for each in gpu["problems"] if each.what not in notes[0]]
            if unsaid:
                who = [str(gpu[key]) for key in ("index", "pci_bus_id") if gpu[key] is not None]
                notes.append(f"GPU {', '.join(who)}: {', '.join(unsaid)}")
        told = "\n".join(note for note in notes if note)
        return (told or self._silence(gpus))[:2000]

    def _advice(self, found: str, gpus: list[dict[str, Any]], host: Sequence[Problem]) -> str | None:
        if host and found == state.DEGRADED:
            return host[0].do
        return state.advice(found, gpus, self._decisive(found).said)

    def _silence(self, gpus: list[dict[str, Any]]) -> str:
        forms = list(dict.fromkeys(attempt.reading.kind for attempt in self._attempts))
        if gpus:
            return "the output was cut off, or was not a list of all GPUs"
        if forms == ["message"]:
            return "there was no output"
        return f"the output contains no GPUs; its format is: {', '.join(forms)}"


def _finished(gpu: dict[str, Any], gather: Sequence[str]) -> dict[str, Any]:
    devices = [{key: value for key, value in device.items() if key != "index"} for device in gpu["mig"]["devices"]]
    shown = {**gpu, "mig": {**gpu["mig"], "devices": devices}, "healthy": not gpu["problems"]}
    shown["problems"] = list(dict.fromkeys(each.what for each in gpu["problems"]))
    shown["faults"] = [fields(each) for each in gpu["problems"]]
    if "processes" not in gather:
        shown["processes"] = []
    return shown
