"""Write the events of a play as JSON lines to $GPULAB_EVENTS, and optionally kill the play like a power failure.

Lines: ``{"event": "result", host, role, task, status, message}`` with status ok, changed, skipped, failed or
unreachable; ``{"event": "execution", host, module, role, task}`` for every module run on a remote host; ``{"event":
"play", name, strategy}`` and ``{"event": "task", role, task, at}`` at the start of each play (of each batch of its
hosts, if it has a serial) and task; ``{"event": "stats", host, ok, changed, ...}``; ``{"event": "problem", host, what,
where, why, do, kind}`` for each preflight problem.

``$GPULAB_KILL_IN=role`` kills ansible-playbook with SIGKILL at the role's first change, or, without one, at the start
of its second task. ``$GPULAB_KILL_AT=task name`` kills it at the start of that task.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: gpulab_events
type: notification
short_description: Write what a play did as JSON lines
version_added: 0.1.0
description:
  - For the tests of this collection.
"""

LOCAL = {"local", "ansible.builtin.local"}


def write(**event: Any) -> None:
    """Append one line in one write, because workers and the main process share the file."""
    line = json.dumps(event, default=str) + "\n"
    try:
        descriptor = os.open(os.environ["GPULAB_EVENTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except FileNotFoundError:
        # A lease keeper releases its lease after the end of a run, when the events are no longer read.
        return
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def role_of(task: Any) -> str:
    role = getattr(task, "_role", None)
    return role.get_name().rpartition(".")[2] if role else ""


def count_executions() -> None:
    """Record every module that runs on a remote host; worker processes inherit this by fork."""
    execute = ActionBase._execute_module

    def counted(self: Any, module_name: Any = None, *args: Any, **kwargs: Any) -> Any:
        if self._connection.transport not in LOCAL:
            host = self._task.delegate_to or (kwargs.get("task_vars") or {}).get("inventory_hostname")
            write(
                event="execution",
                host=host or self._play_context.remote_addr,
                module=module_name or self._task.action,
                role=role_of(self._task),
                task=self._task.get_name(),
            )
        return execute(self, module_name, *args, **kwargs)

    ActionBase._execute_module = counted


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "gpulab_events"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.started = 0
        self.disabled = "GPULAB_EVENTS" not in os.environ
        if not self.disabled:
            count_executions()

    def _result(self, status: str, result: Any) -> None:
        task, found = result._task, result._result
        changed = status == "ok" and bool(found.get("changed"))
        host = result._host.get_name()
        told = "" if found.get("_ansible_no_log") else found.get("msg", "")
        message = "\n".join(map(str, told)) if isinstance(told, list) else str(told)
        write(
            event="result",
            host=host,
            delegated_to=task.delegate_to,
            role=role_of(task),
            task=task.get_name(),
            action=task.action,
            status="changed" if changed else status,
            message=message,
        )
        if changed and role_of(task) == os.environ.get("GPULAB_KILL_IN"):
            self._kill(task)

    @staticmethod
    def _kill(task: Any) -> None:
        write(event="killed", role=role_of(task), task=task.get_name())
        os.kill(os.getpid(), signal.SIGKILL)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        if not self.disabled:
            write(event="play", name=play.get_name(), strategy=play.strategy)

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        if self.disabled:
            return
        write(event="task", role=role_of(task), task=task.get_name(), at=time.monotonic())
        if task.get_name() == os.environ.get("GPULAB_KILL_AT"):
            self._kill(task)
        if role_of(task) in ("preflight", "acceptance") and role_of(task) == os.environ.get("GPULAB_KILL_IN"):
            self.started += 1
            if self.started == 2:
                self._kill(task)

    def v2_runner_on_ok(self, result: Any) -> None:
        self._result("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._result("ignored" if ignore_errors else "failed", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._result("skipped", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._result("unreachable", result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        for problem in stats.custom.get("_run", {}).get("gpulab_preflight_problems", []):
            write(event="problem", **problem)
        for host in sorted(stats.processed):
            write(event="stats", host=host, **stats.summarize(host))
