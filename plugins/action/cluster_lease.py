# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the lease of a cluster for a run; a separate process renews the lease and ends with the run.

This keeper is a fork of the task's process, so it uses the task's connection to the host. If another run holds the
lease, this one waits until that run renews it, and fails then, or until the lease expires: the controller of that run,
or the API while it should have been released, may have lost power.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._errors import reported
from ..plugin_utils._keeper.keeper import lives

_RENEWALS = 6
_PAUSE, _LOOK = 0.2, 2.0
# Limits in seconds for a renewal, for a release, and for the end of the keeper, which may be waiting for a renewal.
_LONGEST_CALL, _LONGEST_RELEASE, _LONGEST_END = 45.0, 75.0, 60.0
_STOP = ".stop"


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types.
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        # Each ansible-playbook has its own directory, which Ansible removes at the end.
        own = Path(constants.DEFAULT_LOCAL_TMP)
        arguments["holder"] = f"{arguments.get('holder', '')} (run {own.name.rpartition('-')[2]})"
        host = self._task.delegate_to or (task_vars or {}).get("inventory_hostname")
        place = json.dumps([host, arguments.get("kubeconfig"), arguments.get("context")])
        state = own / f"lease-{hashlib.sha256(place.encode()).hexdigest()[:16]}"
        try:
            # The free strategy runs the task for several hosts simultaneously.
            with _only_one(state):
                return {**result, **self._hold_or_release(state, arguments, task_vars)}
        except OSError as error:
            return {**result, "failed": True, "msg": str(reported(error))}

    def _hold_or_release(
        self, state: Path, arguments: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        kept = _read(state)
        if arguments.get("state") == "released":
            _stop(state, kept)
        elif kept.get("lost"):
            return {"failed": True, "msg": kept["lost"], "held_by": kept.get("held_by", "")}
        elif _keeper_lives(kept) and time.monotonic() < kept["until"]:
            return {"changed": False, "held": True, "taken_from": "", "api_silent": False}
        elif kept and not _keeper_lives(kept):
            Display().warning(f"The process that renewed the lease of the cluster has ended. {kept.get('error', '')}")
        result: dict[str, Any] = self._execute_module(module_args=arguments, task_vars=task_vars)
        if result.get("held_by"):
            result = self._wait(result, arguments, task_vars)
        if result.get("held") and not _keeper_lives(kept):
            self._start_keeper(state, arguments, task_vars)
        return result

    def _wait(
        self, refused: dict[str, Any], arguments: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Wait until the holder renews the lease or it expires, and return the result of the last try."""
        result, expires, left = refused, refused["expires"], float(refused["expires_in"])
        if left > int(arguments.get("duration", 120)):
            return result
        Display().warning(
            "Another run holds the lease of the cluster. If it has ended without releasing the lease, this run "
            f"continues in {left:.0f} s."
        )
        deadline = time.monotonic() + left + _LONGEST_CALL
        while result.get("held_by") and result.get("expires") == expires and time.monotonic() < deadline:
            time.sleep(_LOOK)
            result = self._execute_again(arguments, task_vars)
        return result

    def _execute_again(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        # Each call has its own directory on the host, because the one before was removed with its call.
        self._connection._shell.tmpdir = None
        try:
            found: dict[str, Any] = self._execute_module(module_args=arguments, task_vars=task_vars)
        finally:
            self.cleanup()
        return found

    def _start_keeper(self, state: Path, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> None:
        parent = os.getppid()
        duration = int(arguments.get("duration", 120))
        _write(state, until=time.monotonic() + duration)
        process = os.fork()
        if process:
            _write(state, process=process, until=time.monotonic() + duration)
            return
        try:
            _detach()
            # The run's directory is removed before the keeper has exited.
            with tempfile.TemporaryDirectory(prefix="gpulab-lease-") as scratch:
                constants.DEFAULT_LOCAL_TMP = scratch
                self._keep(state, parent, duration, arguments, task_vars)
        except BaseException as error:
            with contextlib.suppress(OSError):
                _write(state, error=f"{type(error).__name__}: {error}")
        finally:
            os._exit(0)

    def _keep(
        self, state: Path, parent: int, duration: int, arguments: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> None:
        def call(limit: float, **changes: Any) -> dict[str, Any]:
            # A host that does not respond now may respond the next time.
            with contextlib.suppress(Exception), _within(limit):
                return self._execute_again({**arguments, **changes}, task_vars)
            return {}

        # A signal to the process group also ends the run.
        with contextlib.suppress(SystemExit):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            if not self._renew(state, parent, duration, call):
                return
        call(_LONGEST_RELEASE, state="released")

    @staticmethod
    def _renew(state: Path, parent: int, duration: int, call: Callable[..., dict[str, Any]]) -> bool:
        """Renew the lease until the run has ended; return whether it must be released."""
        pause = duration / _RENEWALS
        renew_at = time.monotonic() + pause
        while lives(parent) and state.exists():
            if state.with_suffix(_STOP).exists():
                return False
            if time.monotonic() < renew_at:
                time.sleep(_PAUSE)
                continue
            asked = time.monotonic()
            renew_at = asked + pause
            result = call(min(duration, _LONGEST_CALL), patience=0)
            if result.get("held_by"):
                _write(state, lost=_lost(str(result.get("msg", ""))), held_by=str(result["held_by"]))
                return False
            if result.get("held"):
                # If the directory is gone, the run is just ending.
                with contextlib.suppress(OSError):
                    _write(state, process=os.getpid(), until=asked + duration)
        return True


def _lost(refusal: str) -> str:
    return (
        "Error while keeping the lease of the cluster: it expired because it could not be renewed, and another run "
        f"has taken it. This run stops before it changes more. {refusal}"
    )


def _stop(state: Path, kept: dict[str, Any]) -> None:
    """Stop the keeper before a release; otherwise a renewal could take the lease again."""
    if _keeper_lives(kept):
        state.with_suffix(_STOP).touch()
        deadline = time.monotonic() + _LONGEST_END
        while _keeper_lives(kept) and time.monotonic() < deadline:
            time.sleep(_PAUSE)
    for path in (state.with_suffix(_STOP), state):
        path.unlink(missing_ok=True)


def _keeper_lives(kept: dict[str, Any]) -> bool:
    return bool(kept.get("process")) and lives(kept["process"])


@contextlib.contextmanager
def _only_one(state: Path) -> Iterator[None]:
    with state.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError, and end all programs of this process, after ``seconds``."""

    def end(_number: int, _frame: object) -> None:
        ignored = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        signal.signal(signal.SIGTERM, ignored)
        raise TimeoutError

    signal.signal(signal.SIGALRM, end)
    # Interrupt again if the call is retried.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _detach() -> None:
    """Detach from the terminal, its signals, and pipes whose readers wait until they are closed."""
    # SIGTERM is blocked until it would release the lease.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    os.setsid()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda *_signal: sys.exit())
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in list(Path("/dev/fd").iterdir()):
        with contextlib.suppress(OSError):
            os.dup2(nothing, int(descriptor.name))


def _read(state: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(state.read_text())
    except (OSError, ValueError):
        return {}
    return found


def _write(state: Path, **values: Any) -> None:
    new = state.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(values))
    new.replace(state)
