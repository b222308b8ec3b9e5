# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: stdout
short_description: >-
  Show the phase, the task and elapsed time of each host, and the hosts and tasks that the run is waiting for
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - On a terminal the lines at the bottom are updated continuously. They show the phase and its elapsed time, then each
    host with its task or with what it is waiting for. Without a terminal, it prints one line per phase, and occasional
    lines for long tasks.
  - Changes, messages of debug tasks and errors are printed once and remain visible. Errors are printed in full. In the
    live view, a change takes one line, cut at the width of the terminal. Output that C(no_log) hides stays hidden.
  - Hosts with the same task, change or error share a line.
  - At the end, it shows the duration of each phase, the result of each host, and how the run ended. The message of a
    debug task with the variable C(progress_closing) comes last.
  - After a failure, durations are shown only with C(-v). A failure of a task with the variable C(progress_explained) is
    not shown, because a task with C(progress_closing) explains it. The variable C(progress_next) of a task says what to
    do after its failure, if that is not to run the same command again.
  - A phase is a play. In a play with several roles, each additional role is a phase.
requirements:
  - Set it as stdout callback, with C(ANSIBLE_STDOUT_CALLBACK=gpulab.kubernetes.progress) or C(stdout_callback) in
    C(ansible.cfg).
extends_documentation_fragment:
  - default_callback
  - result_format_callback
options:
  view:
    description: Whether to keep lines at the bottom of the terminal up to date, or to print plain lines.
    type: str
    choices:
      auto: Live on a terminal, plain elsewhere.
      live: Always live.
      plain: Always plain.
    default: auto
    env:
      - name: GPULAB_PROGRESS_VIEW
    ini:
      - section: callback_progress
        key: view
  interval:
    description: In the plain view, interval in seconds at which a running task is reported.
    type: float
    default: 30
    env:
      - name: GPULAB_PROGRESS_INTERVAL
    ini:
      - section: callback_progress
        key: interval
"""

import atexit
import gc
import os
import shutil
import sys
import threading
import time
from typing import Any, Callable

from ansible import constants, context
from ansible.plugins.callback.default import CallbackModule as DefaultCallback

from ..plugin_utils._progress.events import Progress
from ..plugin_utils._progress.model import Line
from ..plugin_utils._progress.text import account, clip, clock, printable, written

COLORS = {
    "phase": "COLOR_HIGHLIGHT",
    "changed": "COLOR_CHANGED",
    "message": "COLOR_OK",
    "ignored": "COLOR_SKIP",
    "failed": "COLOR_ERROR",
    "unreachable": "COLOR_UNREACHABLE",
}
# Tasks that may prompt on the terminal.
PAUSES = ("pause", "ansible.builtin.pause", "gpulab.kubernetes.new_cluster")
REFRESH = 0.5


class CallbackModule(DefaultCallback):  # type: ignore[misc]
    """The callback; options, warnings and diffs come from the default callback."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gpulab.kubernetes.progress"

    def __init__(self) -> None:
        super().__init__()
        self._progress = Progress()
        self._pid = os.getpid()
        self._over = threading.Event()
        self._live = self._quiet = False
        self._drawn = 0
        # Ansible holds this lock while it forks, so that no worker inherits half a line.
        self._lock = self._display._lock

    def v2_playbook_on_start(self, playbook: Any) -> None:
        view = self.get_option("view")
        # ansible-runner's terminal is a program that reads the output line by line.
        watched = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and "AWX_ISOLATED_DATA_DIR" not in os.environ
        self._live = view == "live" or (view == "auto" and watched)
        # A command line can name several playbooks.
        self._progress, self._over, self._quiet = Progress(), threading.Event(), False
        if self._display.display != self._show_cleaned:
            self._write = self._above(self._display.display) if self._live else self._display.display
            self._display.display = self._show_cleaned
            atexit.register(self._stop)
        self._plays = [play._uuid for play in playbook.get_plays()]
        self._feed("playbook_on_start")
        threading.Thread(target=self._tick, daemon=True).start()

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._play = play
        number = f"{self._plays.index(play._uuid) + 1}/{len(self._plays)}" if play._uuid in self._plays else ""
        self._feed("playbook_on_play_start", name=play.get_name().strip(), number=number)

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        # Objects that the garbage collector does not visit stay in memory that all worker processes share.
        gc.freeze()
        self._quiet = task.action in PAUSES
        self._feed("playbook_on_task_start", **_described(task))

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._feed("playbook_on_task_start", **_described(task))

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self._feed("runner_on_start", host=host.get_name(), **_described(task))

    def v2_runner_on_ok(self, result: Any) -> None:
        self._result("runner_on_ok", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._result("runner_on_skipped", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._result("runner_on_failed", result, ignore_errors=ignore_errors)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._result("runner_on_unreachable", result, ignore_errors=bool(result._task.ignore_unreachable))

    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._result("runner_item_on_ok", result)

    def v2_runner_item_on_skipped(self, result: Any) -> None:
        self._result("runner_item_on_skipped", result)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._result("runner_item_on_failed", result)

    def v2_runner_retry(self, result: Any) -> None:
        self._result("runner_retry", result)

    def v2_playbook_on_include(self, included_file: Any) -> None:
        """Print nothing; the included tasks are shown."""

    def v2_on_file_diff(self, result: Any) -> None:
        found = result._result
        for each in found.get("results", [found]) if result._task.loop else [found]:
            diff = self._get_diff(_clean(each["diff"])) if each.get("changed") and each.get("diff") else ""
            if diff:
                # The diff already contains colors.
                self._write(f"  {result._host.get_name()}: {result._task.get_name()}\n{diff}")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        counted = ("ok", "changed", "skipped", "failures", "dark", "ignored", "rescued")
        self._feed("playbook_on_stats", **{name: getattr(stats, name) for name in counted})
        self._stop()

    def _result(self, event: str, result: Any, **more: Any) -> None:
        self._handle_warnings(result._result)
        self._feed(event, host=result._host.get_name(), res=result._result, **_described(result._task), **more)
        if self._display.verbosity and event in ("runner_on_ok", "runner_on_failed", "runner_item_on_ok"):
            shown = self._dump_results(result._result)
            self._display.display(f"  {result._host.get_name()}: {result._task.get_name()} => {shown}")

    def _feed(self, event: str, **data: Any) -> None:
        with self._lock:
            for line in self._progress.feed({"event": event, "created": time.time(), "event_data": data}):
                self._show(line)

    def _show(self, line: Line) -> None:
        bad = line.kind in ("failed", "unreachable")
        text = written(*line, self._progress.elapsed)
        if self._live and line.kind == "changed":
            text = clip(text, shutil.get_terminal_size().columns - 1)
        color = getattr(constants, COLORS[line.kind])
        self._display.display(text, color=color, stderr=bad and self.get_option("display_failed_stderr"))

    def _above(self, show: Callable[..., None]) -> Callable[..., None]:
        """Return a display function that prints text above the live lines."""

        def display(*args: Any, **kwargs: Any) -> None:
            if os.getpid() != self._pid:
                show(*args, **kwargs)
                return
            with self._lock:
                self._erase()
                show(*args, **kwargs)
                self._draw()

        return display

    def _show_cleaned(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Display text, such as a host's warning, without terminal control sequences."""
        self._write(printable(msg), *args, **kwargs)

    def _tick(self) -> None:
        interval = self.get_option("interval")
        while not self._over.wait(REFRESH if self._live else interval):
            with self._lock:
                if self._live:
                    self._erase()
                    self._draw()
                else:
                    self._remind(interval)

    def _remind(self, interval: float) -> None:
        now, working = time.time(), self._progress.working()
        if working and now - working[0].since >= interval:
            elapsed, since = now - self._progress.started, now - working[0].since
            told = f"  [{clock(elapsed)}] waiting for {self._progress.waiting_for()}, since {clock(since)}"
            self._display.display(told, color=constants.COLOR_VERBOSE)

    def _erase(self) -> None:
        if self._drawn:
            sys.stdout.write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0

    def _draw(self) -> None:
        if self._over.is_set() or self._quiet:
            return
        size = shutil.get_terminal_size()
        lines = self._progress.view(time.time(), max(size.lines - 2, 2))
        sys.stdout.write("".join(clip(line, size.columns - 1) + "\n" for line in lines))
        sys.stdout.flush()
        self._drawn = len(lines)

    def _stop(self) -> None:
        """End the view, also after Ctrl-C, and print the summary of the run."""
        if self._over.is_set() or os.getpid() != self._pid:
            return
        with self._lock:
            self._erase()
            self._over.set()
            sys.stdout.flush()
        for line in self._progress.close():
            self._show(line)
        check = bool(context.CLIARGS.get("check"))
        result = self._progress.result(0 if self._progress.ended else time.time())
        for told in account(result, check, self._display.verbosity > 0, self._progress.next):
            self._display.display(told)
        for line in self._progress.closing:
            self._display.display(line.text, color=constants.COLOR_OK)
        # Skip Python's final garbage collection, which takes half a second.
        gc.freeze()


def _clean(value: Any) -> Any:
    """Return a value of a result with all its texts made printable."""
    if isinstance(value, dict):
        return {key: _clean(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return printable(value) if isinstance(value, str) else value


def _described(task: Any) -> dict[str, Any]:
    role = task._role.get_name() if task._role else ""
    own = {"task": task.name or task.action, "role": role, "task_action": task.action, "task_uuid": task._uuid}
    flags = {name: bool(task.vars.get(f"progress_{name}")) for name in ("closing", "explained")}
    return {**own, **flags, "next": task.vars.get("progress_next")}
