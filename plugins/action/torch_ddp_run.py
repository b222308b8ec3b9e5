# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module of the same name to start, watch and remove a training, and show its progress meanwhile.

The module runs on the task's host, so the API may be one that only another host can reach.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..plugin_utils._progress.text import one_line, printable

# An API server that restarts is available again within this time.
_API_PATIENCE = 120.0
_STILL = 60.0
# Each part of a watch begins by reading the lists.
_SLICE = 30
_MODULE = "gpulab.kubernetes.torch_ddp_run"


class _Interrupted(BaseException):
    pass


class ActionModule(ActionBase):  # type: ignore[misc]
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        self._vars = task_vars or {}
        self._name = str(self._task.args.get("name", ""))
        if self._task.check_mode:
            return self._step("start")
        started = time.monotonic()
        with _interruptible():
            try:
                result = self._step("start")
                return result if result.get("failed") else self._wait(started)
            except _Interrupted:
                return {"failed": True, "msg": f"The training {self._name} was interrupted; its job is being removed."}
            finally:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                self._remove()

    def _wait(self, started: float) -> dict[str, Any]:
        show, limit = _Show(self._name), int(self._task.args.get("timeout", 86400))
        longest = int(self._task.args.get("slice", _SLICE))
        since: dict[str, Any] = {}
        heard = time.monotonic()
        parent = os.getppid()
        while True:
            left = math.ceil(limit - (time.monotonic() - started))
            result = self._step("watch", since=since, slice=max(1, min(longest, left)))
            now = time.monotonic()
            if os.getppid() != parent:
                raise _Interrupted
            if result.get("failed"):
                # 0: no response, 429: busy, 5xx: an error of the API itself. Other statuses are final.
                passing = result.get("status") in (0, 429) or int(result.get("status") or 400) >= 500
                if not passing or now - heard >= _API_PATIENCE:
                    return result
                show.progress(str(result["msg"]), now - started)
                time.sleep(2)
                continue
            heard, since = now, result["since"]
            show.log(result["lines"])
            show.progress(result["text"], now - started)
            if result["state"] == "succeeded":
                return {"changed": True, "summary": result["summary"], "seconds": round(now - started, 1)}
            if result["state"] == "failed":
                return self._failure(result["text"], result["cause"], result["last_words"])
            if now - started >= limit:
                words = self._step("last_words").get("lines", [])
                reason = f"it did not finish within {limit} s (torch_ddp_timeout); {result['text']}"
                return self._failure(reason, "", words)

    def _failure(self, reason: str, cause: str, words: list[str]) -> dict[str, Any]:
        # Output of a script may contain anything, including terminal escape sequences.
        reason, cause, words = one_line(reason), one_line(cause), [printable(line) for line in words]
        told = f"Error while training {self._name}: {reason}" + (f": {cause}" if cause else "")
        if words:
            told += "\nIts last lines:\n" + "\n".join(f"  {line}" for line in words)
        return {"failed": True, "msg": told, "reason": reason, "cause": cause, "last_words": words}

    def _remove(self) -> None:
        removed = self._step("remove")
        if removed.get("failed"):
            Display().warning(printable(str(removed.get("msg"))))

    def _step(self, step: str, **more: Any) -> dict[str, Any]:
        args: Mapping[str, Any] = {**self._task.args, "step": step, **more}
        if step != "start":
            args = {key: value for key, value in args.items() if key not in ("job", "objects", "images")}
        result: dict[str, Any] = self._execute_module(module_name=_MODULE, module_args=args, task_vars=self._vars)
        return result


class _Show:
    """Shows new log lines, and the state when it changes or after some time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._told, self._at = "", 0.0

    def log(self, lines: list[str]) -> None:
        for line in lines:
            # Only the last state of a progress bar.
            Display().display(printable(f"{self._name}-0 | " + line.rstrip("\r").rpartition("\r")[2]))
        if lines:
            self._at = time.monotonic()

    def progress(self, text: str, seconds: float) -> None:
        now = time.monotonic()
        if text != self._told or now - self._at >= _STILL:
            Display().display(one_line(f"{self._name}: {text} ({seconds:.0f} s)"), color="cyan")
            self._told, self._at = text, now


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise an exception on signals, to remove the job before Ansible kills the worker of an interrupted run."""

    def interrupt(_number: int, _frame: object) -> None:
        raise _Interrupted

    before = [(number, signal.signal(number, interrupt)) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
