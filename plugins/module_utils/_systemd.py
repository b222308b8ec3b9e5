# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Systemd units: their state, and whether they still run with an older configuration.

A change of configuration records the unit's current InvocationID. The unit must be restarted as long as that invocation
runs; any restart (by its package, an administrator or a reboot) clears this. Therefore an interrupted run loses no
restart, and nothing is restarted twice.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from ._command import CommandError, CommandNotFoundError, Runner
from ._errors import DomainError
from ._files import put_file

RUN_DIR = "/run/gpulab"
_PROPERTIES = ("LoadState", "ActiveState", "UnitFileState", "InvocationID", "NeedDaemonReload")
_RUNNING = ("active", "activating", "reloading", "refreshing")
_DISABLED = ("disabled", "enabled-runtime")
_JOURNAL_LINES = "15"


@dataclass(frozen=True)
class Unit:
    """State of a unit from ``systemctl show``. ``invocation`` is empty if the unit is not running."""

    name: str
    load: str = "not-found"
    active: str = "inactive"
    file_state: str = ""
    invocation: str = ""
    stale: bool = False

    @property
    def exists(self) -> bool:
        return self.load != "not-found"

    @property
    def running(self) -> bool:
        return self.active in _RUNNING


def is_active(runner: Runner, name: str) -> bool:
    """Return whether a unit is running; False if systemctl fails."""
    try:
        return runner.run(["systemctl", "is-active", "--quiet", name]).rc == 0
    except CommandError:
        return False


def parse_show(name: str, text: str) -> Unit:
    """Parse ``systemctl show --property=...`` (KEY=VALUE lines); missing properties keep their defaults."""
    values = dict(line.partition("=")[::2] for line in text.splitlines())
    active = values.get("ActiveState", "inactive")
    return Unit(
        name,
        load=values.get("LoadState", "not-found"),
        active=active,
        file_state=values.get("UnitFileState", ""),
        invocation=values.get("InvocationID", "") if active in _RUNNING else "",
        stale=values.get("NeedDaemonReload") == "yes",
    )


def full_name(name: str) -> str:
    return name if "." in name else f"{name}.service"


class Systemd:
    """Runs systemctl and journalctl. A host without systemd has no units."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def unit(self, name: str) -> Unit:
        """Return the state of a unit. A name without a suffix is a service."""
        name = full_name(name)
        argv = ["systemctl", "show", *(f"--property={key}" for key in _PROPERTIES), name]
        try:
            return parse_show(name, self._runner.check(argv, f"reading the state of {name}").stdout)
        except CommandNotFoundError:
            return Unit(name)

    def do(self, verb: str, unit: str = "") -> None:
        """Run systemctl. Raise DomainError with its message and the end of the unit's journal."""
        argv = ["systemctl", verb, unit] if unit else ["systemctl", verb]
        result = self._runner.run(argv)
        if result.rc != 0:
            raise DomainError(
                f"Error while running systemctl {' '.join(argv[1:])}: {result.message}{self.journal(unit)}",
                **result.fields(),
            )

    def journal(self, unit: str) -> str:
        """Return the end of the unit's journal as further lines of a message, empty if there is none."""
        if not unit:
            return ""
        argv = ["journalctl", "--unit", unit, "--lines", _JOURNAL_LINES, "--output", "cat", "--no-pager"]
        try:
            text = self._runner.run(argv).stdout.strip()
        except DomainError:
            return ""
        return f"\nIts journal ends with:\n{text}" if text else ""


@dataclass
class Restarts:
    """Records of units to restart, which a reboot clears because they are in /run."""

    systemd: Systemd
    directory: Path = field(default_factory=lambda: Path(RUN_DIR))

    def _note(self, unit: Unit, verb: str = "restart") -> Path:
        return self.directory / verb / unit.name

    def noted(self, name: str, verb: str = "restart") -> bool:
        """Return whether the unit still runs with an older configuration. Without a record, no program is started."""
        return self._note(Unit(full_name(name)), verb).exists() and self.pending(self.systemd.unit(name), verb)

    def note(self, name: str, verb: str = "restart") -> None:
        """Record a restart. Call this before the change, so that a killed run causes one restart too many, not too few.

        ``verb`` is ``reload`` if a reload is sufficient.
        """
        unit = self.systemd.unit(name)
        put_file(self._note(unit, verb), unit.invocation.encode())

    def kept(self, unit: Unit) -> bool:
        """Return whether a restart was recorded. If it is not pending, a killed run has not checked its effect."""
        return self._note(unit).exists()

    def pending(self, unit: Unit, verb: str = "restart") -> bool:
        try:
            return unit.running and self._note(unit, verb).read_text(encoding="utf-8") == unit.invocation
        except FileNotFoundError:
            return False

    def clear(self, unit: Unit) -> None:
        for verb in ("restart", "reload"):
            with contextlib.suppress(FileNotFoundError):
                self._note(unit, verb).unlink()


def needed(unit: Unit, pending: bool, enabled: bool, reload: bool = False) -> list[str]:
    """Return the systemctl verbs that start the unit with its current configuration, in order.

    Raise DomainError for a masked unit.
    """
    if unit.load == "masked" or unit.file_state == "masked":
        raise DomainError(
            f"Error while enabling {unit.name}: it is masked, so it can't run; if it should run again, use: systemctl "
            f"unmask {unit.name}"
        )
    verbs = []
    if enabled and unit.file_state in _DISABLED:
        verbs.append("enable")
    if not unit.running or pending:
        if unit.stale:
            verbs.append("daemon-reload")
        if unit.active == "failed":
            verbs.append("reset-failed")
        verbs.append("restart" if unit.running else "start")
    elif reload:
        verbs.append("reload")
    return verbs
