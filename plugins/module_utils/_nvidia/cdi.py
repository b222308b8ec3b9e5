# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the host's CDI specification of its GPUs complete. The toolkit's nvidia-cdi-refresh writes it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from .._command import CommandNotFoundError, Runner
from .._errors import DomainError
from .._files import read_text
from .._first_run import FirstRun
from .._systemd import Systemd, needed

_INTERVAL = 1.0
_PART = re.compile(r"\d+:\d+")
_NODE = re.compile(r"""^\s*(?:-\s+)?path:\s*["']?(/dev/[^\s"',]+)""", re.MULTILINE)


@dataclass(frozen=True)
class Expected:
    """Expected content of the specification: GPUs, their UUIDs if known, and the driver version.

    ``mig_devices`` is the number of MIG devices on all GPUs, None for any number.
    """

    count: int
    uuids: tuple[str, ...] = ()
    driver_version: str = ""
    mig_devices: int | None = None


@dataclass
class Outcome:
    changed: bool = False
    devices: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)


def parse_devices(text: str, kind: str) -> list[str]:
    """Return the device names of one kind from ``nvidia-ctk cdi list`` (lines ``VENDOR/CLASS=NAME``)."""
    lines = (line.strip() for line in text.splitlines())
    return [line.partition("=")[2] for line in lines if line.startswith(f"{kind}=")]


def gpus(devices: list[str]) -> set[str]:
    """Return the GPU indexes in device names: ``0`` is a GPU, ``0:1`` a MIG device of GPU 0."""
    return {name.partition(":")[0] for name in devices if name.partition(":")[0].isdigit()}


def missing(devices: list[str], text: str, expected: Expected) -> str:
    """Return what the specification lacks, as the end of a sentence; empty if it is complete."""
    found = gpus(devices)
    if len(found) != expected.count:
        return f"it lists {len(found)} of {expected.count} GPUs"
    absent = [uuid for uuid in expected.uuids if uuid not in devices and uuid not in text]
    if absent and not any(":" in name for name in devices):
        return f"it does not list {', '.join(absent)}"
    parts = {name for name in devices if _PART.fullmatch(name)}
    if expected.mig_devices is not None and len(parts) != expected.mig_devices:
        return f"it lists {len(parts)} of {expected.mig_devices} MIG devices"
    if expected.driver_version and f".so.{expected.driver_version}" not in text:
        return f"it does not name the libraries of driver {expected.driver_version}"
    return ""


def vanished(text: str) -> str:
    """Return which device nodes in the specification are missing; with a missing device node, no container starts."""
    gone = [node for node in dict.fromkeys(_NODE.findall(text)) if not Path(node).exists()]
    return f"it names {', '.join(gone)}, which does not exist" if gone else ""


class CdiSpec:
    def __init__(self, runner: Runner, first_run: FirstRun, path: Path, kind: str, units: tuple[str, str]) -> None:
        """``units`` are the service that writes the file and the path unit that triggers it."""
        self._runner = runner
        self._systemd = Systemd(runner)
        self._first_run = first_run
        self._path = path
        self._kind = kind
        self._units = units

    def ensure(self, expected: Expected, timeout: float, check: bool) -> Outcome:
        """Enable the units and refresh an incomplete specification. Raise DomainError if it is not complete in time."""
        outcome = Outcome()
        try:
            lack = self._look(expected, outcome) or vanished(read_text(self._path) or "")
        except CommandNotFoundError:
            if check:
                # The package installs the tool and the units, and triggers them.
                return outcome
            raise
        self._enable(outcome, check)
        if lack:
            outcome.changed = True
            outcome.actions.append(f"start {self._units[0]}")
            if not check:
                self._refresh(expected, timeout, outcome)
                # The path unit is triggered by every change and may have failed by now for starting too often.
                self._enable(outcome, check)
        return outcome

    def _look(self, expected: Expected, outcome: Outcome) -> str:
        argv = ["nvidia-ctk", "--quiet", "cdi", "list", "--spec-dir", str(self._path.parent)]
        result = self._runner.check(argv, "listing CDI devices")
        outcome.devices = parse_devices(result.stdout, self._kind)
        return missing(outcome.devices, read_text(self._path) or "", expected)

    def _enable(self, outcome: Outcome, check: bool) -> None:
        service, trigger = (self._systemd.unit(name) for name in self._units)
        # Changes of the service are included, because it is started next.
        plan = [(service, verb) for verb in needed(service, False, True) if verb in ("daemon-reload", "enable")]
        known = {verb for _unit, verb in plan} & {"daemon-reload"}
        plan += [(trigger, verb) for verb in needed(trigger, False, True) if verb not in known]
        for unit, verb in plan:
            outcome.changed = True
            outcome.actions.append(f"{verb} {unit.name}")
            if not check:
                self._first_run.keep_unit(unit, [verb])
                self._systemd.do(verb, "" if verb == "daemon-reload" else unit.name)

    def _refresh(self, expected: Expected, timeout: float, outcome: Outcome) -> None:
        service = self._units[0]
        # The path unit may have reached systemd's start limit for the service.
        self._systemd.do("reset-failed", service)
        deadline = time.monotonic() + timeout
        said, fields = "", {}
        while True:
            try:
                self._systemd.do("start", service)
            except DomainError as error:
                said, fields = f" {error}", error.fields
            lack = self._look(expected, outcome)
            if not lack:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(_INTERVAL)
        said = said or self._systemd.journal(service)
        raise DomainError(
            f"Error while waiting for the CDI specification {self._path}: {lack}.{said}\n"
            f"Compare `nvidia-smi -L` with `nvidia-ctk cdi list`; a lost GPU needs a reset or a reboot.",
            **fields,
        )
