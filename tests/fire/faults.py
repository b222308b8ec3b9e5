"""Faults during a run, and the thread that waits for their moment."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fire.points import Point

_MOST_ROUNDS = 100


def processes(events: str) -> list[int]:
    """Return the processes of the runs whose events are in files that begin with a path, by their environment.

    Also those that left the session of the run. Other variables don't count: an unrelated process may have the path.
    """
    found, entry = [], f"GPULAB_EVENTS={events}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        # Processes end meanwhile; those that ended but have not been waited for have no environment.
        with contextlib.suppress(OSError):
            if any(each.startswith(entry) for each in (process / "environ").read_bytes().split(b"\0")):
                found.append(int(process.name))
    return found


def kill_run(events: str) -> None:
    """Kill ansible-playbook and its descendants; what has detached itself goes on, for example SSH connections.

    Descendants, because workers are not in the session of ansible-playbook.
    """
    children: dict[int, list[int]] = {}
    for pid in processes(events):
        with contextlib.suppress(OSError):
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(pid)
    waiting = children.get(os.getpid(), [])
    while waiting:
        pid = waiting.pop()
        _kill(pid)
        waiting += children.get(pid, [])


def kill_controller(events: str, sockets: Path) -> None:
    """Kill everything that a run has started on this machine, with its SSH connections; its files stay.

    Hosts see closed connections, and not the silence of a machine without power.
    """
    for _round in range(_MOST_ROUNDS):
        found = processes(events)
        if not found:
            break
        for pid in found:
            _kill(pid)
        time.sleep(0.01)
    else:
        raise RuntimeError(f"processes of the run are still there: {processes(events)}")
    shutil.rmtree(sockets, ignore_errors=True)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Trigger(threading.Thread):
    """Calls a function once, so many seconds after a run has started a task; `ended` is set when the run ends.

    `during` is the last task that had started, which can be a later one.
    """

    def __init__(self, events: Path, point: Point, fault: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.events, self.point, self.fault = events, point, fault
        self.ended = threading.Event()
        self.fired, self.during = False, ""
        self.error: Exception | None = None
        self._position = 0

    def run(self) -> None:
        try:
            if self._wait_for_task() and not self.ended.wait(self.point.delay):
                self.during = [self.during, *self._new_tasks()][-1]
                self.fired = True
                self.fault()
        except Exception as error:
            self.error = error

    def _wait_for_task(self) -> bool:
        """Return whether the task has started before the run ended."""
        seen = 0
        while not self.ended.wait(0.02):
            for task in self._new_tasks():
                self.during = task
                seen += task == self.point.task
            if seen > self.point.before:
                return True
        return False

    def _new_tasks(self) -> list[str]:
        """Return the tasks that started since the last call."""
        if not self.events.is_file():
            return []
        with self.events.open("rb") as file:
            file.seek(self._position)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._position += len(complete)
        events = [json.loads(line) for line in complete.splitlines()]
        return [event["task"] for event in events if event["event"] == "task"]

    def stop(self) -> None:
        """Wait for the fault, if it has begun; a failure of the fault or of the thread is raised."""
        self.ended.set()
        self.join()
        if self.error:
            raise self.error
