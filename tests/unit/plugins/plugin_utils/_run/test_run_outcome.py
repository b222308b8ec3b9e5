# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._run.outcome import (
    PROBLEMS,
    Watch,
    failure,
    host_states,
    read_problems,
    refusal,
)
from hypothesis import given
from hypothesis import strategies as st


def lost(host: str) -> dict[str, Any]:
    return {"event": "runner_on_unreachable", "event_data": {"host": host, "task_action": "ping"}}


def ok(host: str, action: str = "ping", delegate: str = "") -> dict[str, Any]:
    res = {"_ansible_delegated_vars": {"ansible_delegated_host": delegate}} if delegate else {}
    return {"event": "runner_on_ok", "event_data": {"host": host, "task_action": action, "res": res}}


def found(**kinds: str) -> dict[str, Any]:
    """Return the last event of a run in which preflight found a problem on each host; c0 is the whole cluster."""
    problems = [{"host": host.replace("c0", ""), "kind": kind, "what": "x"} for host, kind in kinds.items()]
    return {"event": "playbook_on_stats", "event_data": {"artifact_data": {PROBLEMS: problems}}}


D, F, U, S = "done", "failed", "unreachable", "stopped"
# Events, Ansible's recap, the states of the hosts, and the status unless the run succeeded.
RUNS: dict[str, tuple[list[dict[str, Any]], list[str], list[str], str]] = {
    "a task failed": ([ok("a"), ok("b")], [F, D], [F, D], F),
    "Ansible itself failed": ([ok("a"), ok("b")], [D, D], [D, D], F),
    "unreachable in the recap": ([lost("a"), ok("b")], [U, D], [U, D], U),
    "unreachable, and another failed": ([lost("a"), ok("b")], [U, F], [U, F], F),
    "ignored, then a task that explains it": ([lost("a"), lost("b"), ok("a", "set_fact")], [F, D], [U, U], U),
    "answered later": ([lost("a"), ok("a"), ok("b")], [D, F], [D, F], F),
    "answered earlier": ([ok("a"), lost("a"), ok("b")], [D, F], [D, F], F),
    "another host answered for it": ([lost("a"), ok("a", delegate="localhost"), ok("b")], [F, D], [U, D], U),
    "preflight, all unreachable": ([lost("a"), lost("b"), found(a="host_silent", b="ssh_closed")], [F, D], [U, U], U),
    "preflight, one unreachable": ([ok("a"), lost("b"), found(b="host_silent")], [F, D], [S, U], U),
    "preflight, and another problem": ([ok("a"), lost("b"), found(a="disk", b="host_silent")], [F, D], [F, U], F),
    "preflight, no host unreachable": ([ok("a"), ok("b"), found(b="disk")], [F, D], [S, F], F),
    "preflight, about the cluster": ([ok("a"), ok("b"), found(c0="cidr")], [F, D], [F, S], F),
    "preflight, no sudo": ([lost("a"), ok("b"), found(a="become_password_missing")], [F, D], [F, S], F),
    "preflight, SSH not set up": ([lost("a"), ok("b"), found(a="host_key_changed")], [F, D], [U, S], U),
    "preflight, a host outside the run": ([ok("a"), ok("b"), found(cp="host_silent")], [F, D], [S, S], U),
}


@pytest.mark.parametrize(("events", "recap", "states", "status"), RUNS.values(), ids=RUNS)
def test_states_and_status_show_which_hosts_failed(
    events: list[dict[str, Any]], recap: list[str], states: list[str], status: str
) -> None:
    watch = Watch()
    for event in events:
        watch.feed(event)
    by_host = host_states(dict(zip("ab", recap)), watch, False)
    assert list(by_host.values()) == states
    assert failure(by_host, watch) == status


def test_an_interrupted_host_is_not_done() -> None:
    assert host_states({"a": "done", "b": "failed"}, Watch(), True) == {"a": "unfinished", "b": "failed"}


def test_only_known_fields_of_problems_are_read() -> None:
    given_problem = {"kind": "disk", "host": "a", "what": "no \x1b[2Jroom", "do": 3, "more": "x"}
    assert read_problems([given_problem, "text", None]) == (
        {"kind": "disk", "host": "a", "what": "no ?[2Jroom", "where": "", "why": "", "do": ""},
    )
    assert read_problems({"a": 1}) == read_problems(None) == ()


def test_only_files_written_by_the_report_role_are_reports() -> None:
    watch = Watch()
    for role in ("gpulab.kubernetes.report", "report", "host"):
        data = {"host": "a", "task_action": "gpulab.kubernetes.managed_files", "role": role, "res": {"files": [role]}}
        watch.feed({"event": "runner_on_ok", "event_data": data})
    assert watch.written == ["gpulab.kubernetes.report", "report"]


REFUSALS = {
    "usage": ("usage: a\r\nansible-playbook: error: no such option\r\n\r\nusage: again\r\n", "no such option"),
    "one error": ("[WARNING]: x\r\n[ERROR]: This is\r\nwrong\r\n", "This is wrong"),
    "an older form": ("ERROR! the playbook: x could not be found\n", "the playbook: x could not be found"),
    "no error": ("Killed\n", "Killed"),
    "nothing": ("", "ansible-playbook printed no reason"),
    "inventory": (
        "[WARNING]: Failed to parse inventory with 'ini' plugin: Bad line.\r\n\r\nmore\r\n"
        "[ERROR]: Completely failed to parse inventory source /a\r\n",
        "Completely failed to parse inventory source /a: Bad line",
    ),
}


@pytest.mark.parametrize(("printed", "what"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_one_line_of_ansibles_output(printed: str, what: str) -> None:
    assert refusal(printed).what == what


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda x: (
        st.lists(x)
        | st.dictionaries(
            st.sampled_from(["host", "res", "files", "role", "artifact_data", PROBLEMS, "_ansible_delegated_vars"]), x
        )
    ),
)
KINDS = ["playbook_on_stats", "runner_on_ok", "runner_on_failed", "runner_on_unreachable", "x"]


@given(st.fixed_dictionaries({"event": st.sampled_from(KINDS), "event_data": ANYTHING}))
def test_a_run_without_events_is_an_error(event: dict[str, Any]) -> None:
    watch = Watch()
    watch.feed(event)
    assert failure(host_states({"a": "done"}, watch, False), watch) in ("failed", "unreachable")
