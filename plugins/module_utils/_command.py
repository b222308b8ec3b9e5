# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run programs in modules: argv lists, locale C, a time limit, and a small result."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._errors import DomainError
from ._secrets import mask

_LOCALE = {"LC_ALL": "C", "LANGUAGE": "C"}


@dataclass(frozen=True)
class Result:
    """Result of a program. ``rc`` is negative if a signal ended it, as in Python's subprocess."""

    argv: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str

    @property
    def ended(self) -> str:
        return f"killed by signal {-self.rc}" if self.rc < 0 else f"exit status {self.rc}"

    @property
    def message(self) -> str:
        """Return the program's message: stderr, else stdout, else its exit status. Secrets are masked."""
        text = mask(self.stderr.strip() or self.stdout.strip())
        return text or (self.ended if self.rc < 0 else f"nothing ({self.ended})")

    def fields(self) -> dict[str, Any]:
        """Return the fields for an error. Secrets in ``cmd`` are masked when the module ends (see ``_module``)."""
        return {"cmd": self.argv, "rc": self.rc, "stdout": mask(self.stdout), "stderr": mask(self.stderr)}


@dataclass(frozen=True)
class Ran:
    """A command that has ended, and its duration."""

    argv: tuple[str, ...]
    ended: str
    seconds: float


class CommandError(DomainError):
    """A program failed."""


class CommandNotFoundError(CommandError):
    """The program does not exist on this host."""


class CommandTimeoutError(CommandError):
    """A program exceeded its time limit and was killed with its descendants."""


class Runner:
    """Runs programs with ``AnsibleModule.run_command``.

    ``timeout`` (seconds, None for no limit) and ``environ`` are defaults for each call. Each command is added to the
    module's ``commands_run``.
    """

    def __init__(self, module: Any, timeout: float | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._module = module
        self._timeout = timeout
        self._environ = dict(_LOCALE, **(environ or {}))
        self._ran: list[Ran] = getattr(module, "commands_run", [])

    def find(self, executable: str) -> str | None:
        """Return the path of a program, given by path or by name (in PATH or the sbin directories)."""
        if "/" in executable:
            usable = Path(executable).is_file() and os.access(executable, os.X_OK)
            return executable if usable else None
        path: str | None = self._module.get_bin_path(executable)
        return path

    def run(
        self,
        argv: Sequence[str],
        *,
        data: str | None = None,
        timeout: float | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> Result:
        """Run a program and return its result, whatever its exit status.

        Raise CommandNotFoundError, CommandTimeoutError, or CommandError if the program can't be started.
        """
        path = self.find(argv[0])
        if path is None:
            raise CommandNotFoundError(
                f"Error while running {argv[0]}: there is no such program on this host", cmd=tuple(argv), rc=127
            )
        limit = self._timeout if timeout is None else timeout
        watch, begun = _Watch(limit), time.monotonic()
        try:
            rc, stdout, stderr = self._module.run_command(
                [path, *argv[1:]],
                data=data,
                binary_data=True,
                environ_update=dict(self._environ, **(environ or {})),
                cwd=cwd,
                encoding=None,
                expand_user_and_vars=False,
                handle_exceptions=False,
                before_communicate_callback=watch.start,
            )
        except BrokenPipeError:
            rc, stdout, stderr = -signal.SIGPIPE, b"", b"it stopped reading its input"
        except OSError as error:
            said = f"Error while running {path}: {error.strerror or error}"
            raise CommandError(said, cmd=tuple(argv), rc=126) from error
        finally:
            watch.stop()
        result = Result(tuple(argv), rc, _text(stdout), _text(stderr))
        self._ran.append(Ran(result.argv, result.ended, time.monotonic() - begun))
        if watch.fired:
            raise CommandTimeoutError(
                f"Error while running {Path(path).name}: no response within {limit:g} s, so it was killed",
                **result.fields(),
            )
        return result

    def check(self, argv: Sequence[str], doing: str, **options: Any) -> Result:
        """Run a program; raise CommandError ``Error while <doing>: <message>`` if the exit status is not 0."""
        result = self.run(argv, **options)
        if result.rc != 0:
            raise CommandError(f"Error while {doing}: {result.message}", **result.fields())
        return result


class _Watch:
    """Kills a process and its descendants after the time limit."""

    def __init__(self, limit: float | None) -> None:
        self.fired = False
        self._limit = limit
        self._timer: threading.Timer | None = None

    def start(self, process: Any) -> None:
        if self._limit is not None:
            self._timer = threading.Timer(self._limit, self._fire, [process])
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self, process: Any) -> None:
        if process.poll() is not None:
            return
        self.fired = True
        for pid in (process.pid, *_descendants(process.pid)):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The command name in parentheses may contain any characters, so count from its end.
                parent = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
