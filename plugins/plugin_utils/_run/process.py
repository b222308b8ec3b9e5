# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ansible-playbook under ansible-runner, and stop it without leaving processes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable

# Ansible ignores signals while it forks, so they are repeated after these seconds.
_REPEAT = 10
# Seconds after which a stopped Ansible is killed.
_GRACE = 60
_GRACE_OF_CHILDREN = 5


class Job:
    """A run; ``reason`` is why it was stopped early: canceled or timeout, empty if it was not."""

    def __init__(
        self, on_event: Callable[[Mapping[str, Any]], None], cancel: Callable[[], bool] | None, timeout: float | None
    ) -> None:
        self._on_event, self._cancel = on_event, cancel
        self._deadline = time.monotonic() + timeout if timeout else float("inf")
        self.reason = ""
        self._error: BaseException | None = None
        self._pid = self._signals = 0
        self._asked = self._since = float("-inf")

    def run(self, command: list[str], settings: Mapping[str, Any]) -> tuple[int, str]:
        """Run ansible-playbook with these arguments; return its exit status and its output.

        Raises exceptions of the caller's functions after all processes have ended.
        """
        from ansible_runner.interface import init_command_config

        handlers = {"event_handler": self._handle, "cancel_callback": self._must_end, "status_handler": self._at_status}
        self._runner = init_command_config("ansible-playbook", command, quiet=True, **handlers, **settings)
        # Seconds between two calls of cancel_callback. The setting of this name only counts in env/settings.
        self._runner.config.pexpect_timeout = 1
        try:
            with self._signals_handled():
                self._runner.run()
        finally:
            if self.reason or not isinstance(self._runner.rc, int):
                _end_processes(f"AWX_ISOLATED_DATA_DIR={self._runner.config.artifact_dir}\0".encode())
            for name in ("command", "env.list"):
                Path(self._runner.config.artifact_dir, name).unlink(missing_ok=True)
        if self._error:
            raise self._error
        rc = self._runner.rc if isinstance(self._runner.rc, int) else 255
        if rc == 0:
            self.reason = ""
        return rc, Path(self._runner.config.artifact_dir, "stdout").read_bytes().decode(errors="replace")

    def _at_status(self, data: Mapping[str, Any], **_more: Any) -> None:
        if data.get("status") == "running":
            # The file contains the whole environment.
            Path(self._runner.config.artifact_dir, "command").unlink(missing_ok=True)

    def _handle(self, event: dict[str, Any]) -> bool:
        self._pid = 0 if self._runner.config.containerized else event.get("pid") or self._pid
        if not self._error:
            with self._errors_kept():
                self._on_event(event)
        return True

    @contextlib.contextmanager
    def _errors_kept(self) -> Iterator[None]:
        """Stop the run if a function of the caller raises, because ansible-runner would leave its process running."""
        try:
            yield
        except BaseException as error:
            self._error = self._error or error
            self._stop("canceled")

    def _stop(self, reason: str) -> None:
        if not self.reason:
            self.reason, self._since = reason, time.monotonic()
        self._ask()

    def _ask(self) -> None:
        if self._pid and time.monotonic() > self._asked + _REPEAT:
            self._asked = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGINT)

    def _must_end(self) -> bool:
        """Return whether ansible-runner must kill the run; before that, it is interrupted."""
        if not self.reason:
            with self._errors_kept():
                if self._cancel and self._cancel():
                    self._stop("canceled")
                elif time.monotonic() > self._deadline:
                    self._stop("timeout")
        if not self.reason:
            return False
        self._ask()
        return not self._pid or self._signals > 1 or time.monotonic() > self._since + _GRACE

    def _on_signal(self, *_: object) -> None:
        self._signals += 1
        self._stop("canceled")

    @contextlib.contextmanager
    def _signals_handled(self) -> Iterator[None]:
        """Cancel the run on SIGINT and SIGTERM, which only a program's main thread can handle."""
        numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _end_processes(mark: bytes) -> None:
    """End all processes of this user with ``mark``, which identifies a run, in their environment."""
    deadline, sent = time.monotonic() + _GRACE_OF_CHILDREN, signal.SIGTERM
    while found := [pid for pid in _pids() if pid != os.getpid() and _has(pid, mark)]:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, sent)
        if sent == signal.SIGKILL:
            return
        time.sleep(0.1)
        sent = signal.SIGKILL if time.monotonic() > deadline else signal.SIGTERM


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def _has(pid: int, mark: bytes) -> bool:
    with contextlib.suppress(OSError):
        return mark in Path(f"/proc/{pid}/environ").read_bytes()
    return False
