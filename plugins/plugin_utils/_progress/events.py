# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the events of a run into phases and progress. Pure: times come from the events.

An event is a dictionary as from ansible-runner: ``event``, ``created`` (ISO 8601, or seconds since 1970) and
``event_data`` with ``play``, ``role``, ``task``, ``host`` and ``res``. The callback plugin builds the same
dictionaries. A phase is a play; in a play with several roles, each further role is a phase of its own. Titles are the
names of plays and roles, so that none is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ...module_utils._json import as_text
from .model import COUNTS, Host, Line, Phase, Row, Task
from .text import clock, names, one_line, said, seconds_of, what_failed

DEBUG = ("debug", "ansible.builtin.debug", "ansible.legacy.debug")
FAIL = ("fail", "ansible.builtin.fail", "ansible.legacy.fail")
# Ansible's own first task of a role; a dependency with settings only has no other task.
CHECKS = ("validate_argument_spec", "ansible.builtin.validate_argument_spec")
SLOWEST = 5
WAITS = "waits for"
# ansible-runner's names in playbook_on_stats.
STATS = {"dark": "unreachable", "failures": "failed"}
ENDS = {"runner_on_ok": "ok", "runner_on_skipped": "skipped"}
FAILURES = {"runner_on_failed": "failed", "runner_on_unreachable": "unreachable"}


def earlier(text: str | bytes) -> dict[str, Any]:
    """Return the stored result of an earlier run, empty if it can't be read: a run must not fail because of it."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and {"status", "phase"} <= found.keys() else {}


class Progress:
    """The state of one run; `feed` takes any event, never raises, and returns lines to show."""

    def __init__(self, before: Any = None) -> None:
        """Start with the `result` of an earlier run, if there is one, which gives the expected number of tasks."""
        self.started, self.now = math.inf, 0.0
        self.play = self._number = ""
        self.phase: Phase | None = None
        self.phases: dict[tuple[str, str], Phase] = {}
        self.hosts: dict[str, Host] = {}
        self.ended = False
        self._failed_in: Phase | None = None
        self._task: Task | None = None
        # Whether hosts don't wait for each other in this play, which is then one phase.
        self._free = False
        self._by_host: dict[str, Task] = {}
        self._slow: list[Task] = []
        self._shown: set[tuple[str, str]] = set()
        # Lines of the present task with the hosts that share them, shown when the task ends.
        self._changed: dict[str, list[str]] = {}
        self._repeated: dict[tuple[str, str, str], list[str]] = {}
        self._names: dict[str, str] = {}
        # Lines to show last: messages of debug tasks with the variable progress_closing.
        self.closing: list[Line] = []
        # What to do after a failure, and whether the closing lines explain it.
        self.next, self._explained = "", False
        earlier = before.get("phases") if isinstance(before, Mapping) else None
        found = [each for each in earlier if isinstance(each, Mapping)] if isinstance(earlier, list) else []
        self._expected = {(str(each.get("play")), str(each.get("role"))): each.get("tasks") for each in found}

    @property
    def elapsed(self) -> float:
        return max(self.now - self.started, 0.0)

    def feed(self, event: Any) -> list[Line]:
        """Process an event of any shape, and return the lines to keep on the screen."""
        if not isinstance(event, Mapping):
            return []
        given = event.get("event_data")
        data: Mapping[Any, Any] = given if isinstance(given, Mapping) else {}
        self.now = seconds_of(event.get("created"), self.now)
        self.started = min(self.started, self.now)
        kind, host = as_text(event.get("event")), as_text(data.get("host"))
        if kind == "playbook_on_play_start":
            return self._play(as_text(data.get("name")) or as_text(data.get("play")), as_text(data.get("number")))
        if kind == "playbook_on_task_start":
            name = as_text(data.get("task")) or as_text(data.get("name"))
            # Only this event has the name with its variables filled in.
            self._names[as_text(data.get("task_uuid"))] = name
            return self._begin(name, "" if as_text(data.get("task_action")) in CHECKS else as_text(data.get("role")))
        if kind == "playbook_on_stats":
            return self._end(data)
        if host:
            return self._on_host(kind, self.hosts.setdefault(host, Host(host)), data)
        return []

    def _play(self, name: str, number: str) -> list[Line]:
        lines = self.close()
        self.play, self._number, self._free = name or "a play without a name", number, False
        for host in self.hosts.values():
            host.phase, host.task = None, ""
        return lines

    def _begin(self, name: str, role: str) -> list[Line]:
        lines = self.close()
        self._free = self._free or bool(self.working())
        phase, known = self._phase("" if self._free else role.rpartition(".")[2])
        phase.tasks += 1
        self.phase, self._task = phase, Task(name, phase, self.now)
        self._shown.clear()
        return lines if known else [*lines, Line("phase", "", one_line(phase.heading))]

    def _phase(self, role: str) -> tuple[Phase, bool]:
        """Return the phase of a role in this play, and whether it was known."""
        tasks = self._expected.get((self.play, role))
        expected = tasks if isinstance(tasks, int) else None
        of_play = [phase for phase in self.phases.values() if phase.play == self.play]
        if not of_play:
            self.phases[self.play, role] = Phase(self.play, role, expected=expected, number=self._number)
            return self.phases[self.play, role], False
        if not role:
            return (self.phase if self.phase in of_play else of_play[0]), True
        if not of_play[0].role:
            self.phases[self.play, role] = self.phases.pop((self.play, ""))
            of_play[0].role, of_play[0].expected = role, expected
        known = (self.play, role) in self.phases
        phase = Phase(self.play, role, False, expected, number=self._number)
        return self.phases.setdefault((self.play, role), phase), known

    def close(self) -> list[Line]:
        """End the present task, and return the lines that its hosts share."""
        lines = [Line("changed", names(hosts), one_line(task)) for task, hosts in self._changed.items()]
        lines += [
            Line(word, names(hosts), f"{one_line(task)}: as on {first}")
            for (word, task, _said), (first, *hosts) in self._repeated.items()
            if hosts
        ]
        self._changed.clear()
        self._repeated.clear()
        if self._task:
            self._task.phase.seconds += self.now - self._task.started
            if not self._free:
                self._note(self._task)
        self._task = None
        return lines

    def _note(self, task: Task) -> None:
        """Record how long a task has taken if it is one of the slowest."""
        task.seconds = self.now - task.started
        others = [each for each in self._slow if each is not task]
        self._slow = sorted([*others, task], key=lambda each: -each.seconds)[:SLOWEST]

    def _end(self, data: Mapping[Any, Any]) -> list[Line]:
        lines = self.close()
        self.ended = True
        for key, found in data.items():
            name = STATS.get(key, key) if isinstance(key, str) else ""
            if name not in COUNTS or not isinstance(found, Mapping):
                continue
            for each in self.hosts.values():
                each.counts[name] = 0
            for host, count in found.items():
                if isinstance(host, str) and isinstance(count, int):
                    self.hosts.setdefault(host, Host(host)).counts[name] = count
        lost = self._explained and any(each.lost for each in self.hosts.values())
        for each in self.hosts.values():
            bad = next((word for word in ("unreachable", "failed") if each.counts[word]), "done")
            if self._explained and (lost or bad == "done"):
                # The failure of one host stopped the others.
                bad = each.lost or "unfinished"
            each.state, each.task = bad, each.task if bad in ("unreachable", "failed") else ""
        return lines

    def _on_host(self, kind: str, host: Host, data: Mapping[Any, Any]) -> list[Line]:
        given = data.get("res")
        res: Mapping[Any, Any] = given if isinstance(given, Mapping) else {}
        task = self._names.get(as_text(data.get("task_uuid"))) or as_text(data.get("task"))
        if kind == "runner_on_start":
            host.phase, host.task, host.since, host.attempt, host.state = self.phase, task, self.now, "", "running"
            if self._task:
                self._by_host[host.name] = self._task
        elif kind == "runner_retry":
            host.attempt = f"attempt {res.get('attempts', '?')} of {res.get('retries', '?')}"
        elif kind in ENDS:
            lines = self._succeeded(ENDS[kind], host, task, res, as_text(data.get("task_action")))
            if not data.get("closing"):
                return lines
            self.closing += lines
        elif kind in FAILURES:
            if not data.get("explained"):
                self.next = self.next or as_text(data.get("next"))
            else:
                self._shown.add((host.name, task))
                if as_text(data.get("task_action")) in FAIL:
                    self._explained = True
                else:
                    host.lost = FAILURES[kind]
            return self._failed(FAILURES[kind], host, task, res, bool(data.get("ignore_errors")))
        elif kind == "runner_item_on_failed":
            self._shown.add((host.name, task))
            return [Line("failed", host.name, f"{one_line(task)}: {what_failed(res)}")]
        elif kind == "runner_item_on_ok" and as_text(data.get("task_action")) in DEBUG:
            self._shown.add((host.name, task))
            return [Line("message", host.name, said(res))]
        return []

    def _succeeded(self, word: str, host: Host, task: str, res: Mapping[Any, Any], action: str) -> list[Line]:
        self._left(host)
        host.counts[word] += 1
        if action in DEBUG and word == "ok":
            return [] if (host.name, task) in self._shown else [Line("message", host.name, said(res))]
        if res.get("changed") is not True or word != "ok":
            return []
        host.counts["changed"] += 1
        if self.phase:
            self.phase.changed += 1
        self._changed.setdefault(task, []).append(host.name)
        return []

    def _failed(self, word: str, host: Host, task: str, res: Mapping[Any, Any], ignored: bool) -> list[Line]:
        self._left(host)
        host.counts["ignored" if ignored else word] += 1
        if not ignored:
            host.state, host.task = word, task
            self._failed_in = self._failed_in or self.phase
        if (host.name, task) in self._shown:
            return []
        line = Line("ignored" if ignored else word, host.name, f"{one_line(task)}: {what_failed(res)}")
        same = self._repeated.setdefault((line.kind, task, line.text), [])
        same.append(host.name)
        return [] if same[1:] else [line]

    def _left(self, host: Host) -> None:
        host.task, host.attempt, host.since = "", "", self.now
        task = self._by_host.pop(host.name, None)
        if task:
            task.host = host.name
            if self._free:
                self._note(task)

    def working(self) -> list[Host]:
        """Return the hosts that work on a task now, those with the longest time first."""
        return sorted((h for h in self.hosts.values() if h.task and h.state == "running"), key=lambda h: h.since)

    def rows(self) -> list[Row]:
        """Return a row for each active host of this play, in order of appearance."""
        waiting, rows = names([host.name for host in self.working()]), []
        for host in self.hosts.values():
            if host.phase and host.phase.play == self.play:
                doing = f"{host.task} {host.attempt}".strip() if host.task else f"{WAITS} {waiting}" * bool(waiting)
                done = host.phase.tasks - bool(host.task)
                rows.append(
                    Row(host.name, host.phase, done, doing if host.state == "running" else host.state, host.since)
                )
        return rows

    def view(self, now: float, height: int) -> list[str]:
        """Return what the phase and its hosts do now, in at most ``height`` lines: hosts with the same task share one.

        Times come first, and names of hosts that share a line have a line of their own if there is room, because a
        narrow terminal truncates lines.
        """
        if self.phase is None or self.ended:
            return []
        rows = self.rows()
        alone = len(rows) < height
        groups: dict[str, list[Row]] = {}
        for row in rows if alone else sorted(rows, key=lambda row: row.doing.startswith(WAITS)):
            groups.setdefault(row.host if alone else row.doing, []).append(row)
        told = list(groups.values())
        named = not alone and 2 * len(told) < height
        left = told[height - 2 :] if len(told) >= height else []
        lines = [f"{clock(now - self.started)} {self.phase.heading}"]
        for same in told[: len(told) - len(left)]:
            hosts = [row.host for row in same]
            who = hosts[0] if alone else f"{len(hosts)} of {len(rows)}"
            since = clock(now - min(row.since for row in same))
            lines.append(f"{since:>6} {who}: {same[0].doing}".removesuffix(": "))
            if named:
                lines.append(f"{'':>6} {names(hosts)}")
        return [*lines, *([f"  and {sum(map(len, left))} more"] if left else [])]

    def waiting_for(self) -> str:
        """Return the hosts that others wait for, and their tasks: ``gpu1: Install the driver (attempt 2 of 9)``."""
        groups: dict[str, list[str]] = {}
        for host in self.working():
            remark = f" ({host.attempt})" if host.attempt else ""
            groups.setdefault(host.task + remark, []).append(host.name)
        return one_line("; ".join(f"{names(hosts)}: {task}" for task, hosts in groups.items()))

    def verdict(self) -> str:
        """Return why a run failed: failed, unreachable, error, or bad input (nothing was started)."""
        states = {host.state for host in self.hosts.values()}
        return next(
            (word for word in ("failed", "unreachable") if word in states), "error" if self.phases else "bad input"
        )

    def result(self, now: float = 0.0) -> dict[str, Any]:
        """Return the result of a finished run as plain data. now: when it ended, if not with its last event."""
        self.now = max(self.now, now)
        self.close()
        state = {"running": "unfinished"}
        last = self._failed_in if self.verdict() in ("failed", "unreachable") and self._failed_in else self.phase
        slowest = [
            {"task": t.name, "phase": t.phase.title, "host": t.host, "seconds": round(t.seconds, 2)} for t in self._slow
        ]
        return {
            "seconds": round(self.elapsed, 2),
            "phase": last.title if last else "",
            "phases": [phase.described() for phase in self.phases.values()],
            "slowest": slowest,
            "explained": self._explained,
            "hosts": {
                h.name: {"state": state.get(h.state, h.state), "task": h.task, **h.counts} for h in self._worked()
            },
        }

    def _worked(self) -> list[Host]:
        """Return the hosts, without the controller if a play only skipped its tasks."""
        hosts = list(self.hosts.values())
        kept = [h for h in hosts if h.name != "localhost" or any(n for key, n in h.counts.items() if key != "skipped")]
        return kept or hosts
