# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a run ended: the state of each host, the problems that preflight found, the written report. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ...module_utils._json import as_text
from .._preflight.access import CAUSES
from .._preflight.problem_text import FIELDS
from .._progress.text import one_line, printable

# Name of the custom statistic in which preflight passes on its problems.
PROBLEMS = "gpulab_preflight_problems"
# Kinds of problems that only unreachable hosts have, and kinds that other hosts can have, too.
_UNREACHABLE = {"host_unreachable", *(cause.kind for cause in CAUSES if cause.only_unreachable)}
# Ansible reports some failures to become root as failed connections.
_ACCESS = {cause.kind for cause in CAUSES if not cause.kind.startswith(("become_", "sudo"))}
# These run on the controller, so their success does not show that a host answered.
_ON_CONTROLLER = {"add_host", "assert", "debug", "fail", "group_by", "meta", "pause", "set_fact", "set_stats"}
_ON_CONTROLLER |= {"include_role", "include_tasks", "include_vars", "import_role", "import_tasks"}
_ON_CONTROLLER |= {"validate_argument_spec"}


class Watch:
    """The outcome of a run, read from its events; `feed` takes any event and never raises."""

    def __init__(self) -> None:
        self.problems: tuple[dict[str, str], ...] = ()
        # Files written by the role report.
        self.written: list[str] = []
        # Hosts that were unreachable at some point.
        self.lost: set[str] = set()
        self._answered: set[str] = set()

    @property
    def silent(self) -> set[str]:
        """Return the hosts that were tried and never answered."""
        return self.lost - self._answered

    def feed(self, event: Mapping[Any, Any]) -> None:
        data = event.get("event_data")
        if not isinstance(data, Mapping):
            return
        kind, host = as_text(event.get("event")), as_text(data.get("host"))
        if kind == "playbook_on_stats":
            given = data.get("artifact_data")
            self.problems = read_problems(given.get(PROBLEMS) if isinstance(given, Mapping) else None)
        elif kind == "runner_on_unreachable":
            self.lost.add(host)
        elif kind in ("runner_on_ok", "runner_on_failed"):
            action = as_text(data.get("task_action")).rpartition(".")[2]
            if action not in _ON_CONTROLLER:
                self._answered.add(_delegate(data) or host)
            if kind == "runner_on_ok" and action == "managed_files":
                self._note_report(data)

    def _note_report(self, data: Mapping[Any, Any]) -> None:
        res = data.get("res")
        files = res.get("files") if isinstance(res, Mapping) else None
        if as_text(data.get("role")).rpartition(".")[2] == "report" and isinstance(files, list):
            self.written += [path for path in files if isinstance(path, str)]


def _delegate(data: Mapping[Any, Any]) -> str:
    """Return the host to which a task was delegated, empty for none; events of unreachable hosts lack it."""
    res = data.get("res")
    given = res.get("_ansible_delegated_vars") if isinstance(res, Mapping) else None
    if not isinstance(given, Mapping):
        return ""
    # ansible-core 2.19 only has its address.
    return as_text(given.get("ansible_delegated_host")) or as_text(given.get("ansible_host"))


def read_problems(given: Any) -> tuple[dict[str, str], ...]:
    """Return the known fields of each problem as printable text; anything else is left out."""
    found = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
    return tuple({field: printable(as_text(each.get(field))) for field in FIELDS} for each in found)


def host_states(recap: Mapping[str, str], watch: Watch, interrupted: bool) -> dict[str, str]:
    """Return the state of each host from the states in Ansible's recap.

    Preflight tries all hosts before it fails, and if it fails on one host, the run ends for all of them. So its
    problems name the failed hosts, and no other host was changed.
    """
    named: dict[str, str] = {}
    for problem in watch.problems:
        state = "unreachable" if is_unreachable(problem, watch.lost) else "failed"
        named[problem["host"]] = state if named.get(problem["host"]) != "failed" else "failed"
    explained = any(named)
    states = {}
    for host, state in recap.items():
        if host in named:
            states[host] = named[host]
        elif host in watch.silent:
            states[host] = "unreachable"
        elif watch.problems:
            states[host] = "failed" if state == "failed" and not explained else "stopped"
        else:
            states[host] = "unfinished" if interrupted and state == "done" else state
    return states


def is_unreachable(problem: Mapping[str, str], lost: Collection[str]) -> bool:
    """Return whether preflight's problem is that its host can't be reached."""
    return problem["kind"] in _UNREACHABLE or (problem["kind"] in _ACCESS and problem["host"] in lost)


def failure(states: Mapping[str, str], watch: Watch) -> str:
    """Return the status of an unsuccessful run: unreachable if nothing else failed."""
    if any(not is_unreachable(problem, watch.lost) for problem in watch.problems):
        return "failed"
    if "failed" in states.values():
        return "failed"
    return "unreachable" if watch.problems or "unreachable" in states.values() else "failed"


class Refusal(NamedTuple):
    what: str
    do: str


# Error text of an ansible-playbook that refuses to start -> what to do.
_REMEDIES = (
    ("could not be found", "Give the path of a playbook, or the name of one, such as gpulab.kubernetes.site"),
    ("no hosts to target", "Give a limit that names hosts or groups of the inventory"),
    ("inventory source", "Fix the inventory or the variables; ansible-inventory --list shows how Ansible reads them"),
)
_USAGE = re.compile(r"^ansible-playbook: error: (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^(?:\[ERROR\]: |ERROR! )((?:.|\n)*?)(?=^\[|\Z)", re.MULTILINE)
_UNPARSED = re.compile(r"^\[WARNING\]: Failed to parse inventory with '\w+' plugin:((?:.|\n)*?)(?=^$|\Z)", re.MULTILINE)


def refusal(output: str) -> Refusal:
    """Return why ansible-playbook refused to start, from its output."""
    text = "\n".join(printable(line).rstrip() for line in output.splitlines())
    usage, blocks = _USAGE.search(text), _BLOCK.findall(text)
    what = usage[1] if usage else one_line(" ".join(blocks)) or one_line(text) or "ansible-playbook printed no reason"
    do = next((do for words, do in _REMEDIES if words in what), "Fix this, and run it again")
    if "inventory source" in what:
        reasons = dict.fromkeys(one_line(each).rstrip(".") for each in _UNPARSED.findall(text))
        what = f"{what}: {'; '.join(reasons)}" if reasons else what
    return Refusal(what, do)
