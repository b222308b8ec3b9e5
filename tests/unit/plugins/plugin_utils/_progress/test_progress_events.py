# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._progress.events import Progress, earlier
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._progress.model import COUNTS, Line
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._progress.text import clip
from hypothesis import given
from hypothesis import strategies as st

REPOSITORY = Path(__file__).resolve().parents[5]


@pytest.mark.parametrize("text", [b"", b"{broken", b"\xff\xfe{}", b"[" * 100_000, b"[]", b'{"status": "failed"}'])
def test_an_invalid_summary_file_is_ignored(text: bytes) -> None:
    assert earlier(text) == {}


def test_an_earlier_summary_is_read() -> None:
    assert earlier('{"status": "failed", "phase": "p"}') == {"status": "failed", "phase": "p"}


def event(at: Any, kind: str, **data: Any) -> dict[str, Any]:
    return {"event": kind, "created": at, "pid": 1, "uuid": "x", "event_data": data}


def play(at: float, name: str) -> dict[str, Any]:
    return event(at, "playbook_on_play_start", name=name, pattern="all")


def task(at: float, name: str, role: str = "", uuid: str = "") -> dict[str, Any]:
    return event(at, "playbook_on_task_start", task=name, role=role, task_uuid=uuid, name=f"{role} : {name}")


def starts(at: float, *hosts: str, name: str = "t") -> list[dict[str, Any]]:
    return [event(at, "runner_on_start", host=host, task=name) for host in hosts]


def ok(at: float, host: str, **res: Any) -> dict[str, Any]:
    return event(at, "runner_on_ok", host=host, task="t", task_action="copy", res=res)


def fed(*events: Any) -> tuple[Progress, list[Line]]:
    progress = Progress()
    return progress, [line for each in events for line in progress.feed(each)]


API_PLAY = [
    play(100, "Prepare the hosts"),
    task(101, "t", "gpulab.kubernetes.host"),
    *starts(101, "cp1", "gpu1"),
    ok(103, "cp1", changed=True),
    ok(106, "gpu1", changed=False),
    play(107, "Use the GPUs"),
    task(107, "t", "kubeadm"),
    *starts(107, "cp1"),
    ok(108, "cp1"),
    task(108, "t", "flannel"),
    *starts(108, "cp1"),
    ok(110, "cp1", changed=True),
    task(110, "t", "nvidia_device_plugin"),
    *starts(110, "cp1"),
    ok(120, "cp1"),
    task(120, "t", "kubeadm"),
    *starts(120, "cp1"),
    ok(121, "cp1"),
    event(
        122,
        "playbook_on_stats",
        ok={"cp1": 5, "gpu1": 1},
        changed={"cp1": 2},
        dark={},
        failures={},
        processed={"cp1": 1},
    ),
]


def test_a_play_starts_a_phase_and_so_does_each_further_role_in_it() -> None:
    progress, lines = fed(*API_PLAY)
    assert [line.text for line in lines if line.kind == "phase"] == [
        "Prepare the hosts",
        "Use the GPUs",
        "Flannel",
        "Nvidia device plugin",
    ]
    phases = {phase["title"]: phase for phase in progress.result()["phases"]}
    assert {title: phase["seconds"] for title, phase in phases.items()} == {
        "Prepare the hosts": 6,
        "Use the GPUs": 3,
        "Flannel": 2,
        "Nvidia device plugin": 10,
    }
    assert {title: (phase["tasks"], phase["changed"]) for title, phase in phases.items()} == {
        "Prepare the hosts": (1, 1),
        "Use the GPUs": (2, 0),
        "Flannel": (1, 1),
        "Nvidia device plugin": (1, 0),
    }


def test_every_role_and_play_of_the_collection_has_a_unique_title() -> None:
    plays = [
        each["name"]
        for path in (REPOSITORY / "playbooks").glob("*.yml")
        for each in yaml.safe_load(path.read_text())
        if "hosts" in each
    ]
    roles = sorted(path.name for path in (REPOSITORY / "roles").iterdir())
    _progress, lines = fed(play(0, plays[0]), task(0, "t", "first"), *(task(0, "t", role) for role in roles))
    titles = [line.text for line in lines if line.kind == "phase"][1:]
    assert len(titles) == len(set(titles)) == len(roles)
    _progress, lines = fed(*(each for name in plays for each in (play(0, name), task(0, "t"))))
    assert [line.text for line in lines] == list(dict.fromkeys(" ".join(name.split()) for name in plays))


def test_the_validation_of_a_roles_arguments_does_not_start_a_phase() -> None:
    checks = [task(0, "t", role) for role in ("cluster", "containerd")]
    for check in checks:
        check["event_data"]["task_action"] = "ansible.builtin.validate_argument_spec"
    progress, lines = fed(play(0, "p"), *checks, task(2, "t", "containerd"), task(5, "t", "host"), task(9, "t"))
    assert [line.text for line in lines] == ["p", "Host"]
    phases = progress.result(10)["phases"]
    assert [(phase["role"], phase["seconds"]) for phase in phases] == [("containerd", 5), ("host", 5)]


def test_phases_add_up_to_the_time_between_the_first_task_and_the_end() -> None:
    result = fed(*API_PLAY)[0].result()
    assert result["seconds"] == 22
    assert sum(phase["seconds"] for phase in result["phases"]) == 21
    assert result["slowest"][0] == {"task": "t", "phase": "Nvidia device plugin", "host": "cp1", "seconds": 10}


def test_a_host_that_has_finished_a_task_is_shown_as_waiting() -> None:
    progress, _lines = fed(*API_PLAY[:5])
    assert progress.waiting_for() == "gpu1: t"
    assert [(row.host, row.doing, row.done) for row in progress.rows()] == [
        ("cp1", "waits for gpu1", 1),
        ("gpu1", "t", 0),
    ]


def test_a_repeated_task_shows_its_attempt() -> None:
    progress, _lines = fed(
        play(0, "p"),
        task(0, "Wait for it"),
        *starts(0, "a", name="Wait for it"),
        event(5, "runner_retry", host="a", task="Wait for it", res={"attempts": 3, "retries": 60}),
    )
    assert progress.waiting_for() == "a: Wait for it (attempt 3 of 60)"


def test_only_some_of_many_hosts_are_named() -> None:
    progress, _lines = fed(play(0, "p"), task(0, "t"), *starts(0, *"abcdef"))
    assert progress.waiting_for() == "a, b, c, d and 2 more: t"


STATES: list[tuple[str, list[dict[str, Any]], str, str]] = [
    ("failed", [event(1, "runner_on_failed", host="a", task="t", res={"msg": "no"})], "failed", "failed"),
    (
        "unreachable",
        [event(1, "runner_on_unreachable", host="a", task="t", res={"msg": "x"})],
        "unreachable",
        "unreachable",
    ),
    ("ignored", [event(1, "runner_on_failed", host="a", task="t", res={}, ignore_errors=True)], "running", "error"),
    ("skipped", [event(1, "runner_on_skipped", host="a", task="t")], "running", "error"),
    (
        "rescued",
        [event(1, "runner_on_failed", host="a", task="t", res={}), task(2, "u"), *starts(2, "a")],
        "running",
        "error",
    ),
]


@pytest.mark.parametrize(("events", "state", "verdict"), [s[1:] for s in STATES], ids=[s[0] for s in STATES])
def test_each_event_sets_the_state_of_its_host(events: list[dict[str, Any]], state: str, verdict: str) -> None:
    progress, _lines = fed(play(0, "p"), task(0, "t"), *starts(0, "a"), *events)
    assert progress.hosts["a"].state == state
    assert progress.verdict() == verdict


def test_the_final_statistics_take_precedence() -> None:
    stats = event(9, "playbook_on_stats", ok={"a": 7, "b": 1}, failures={}, dark={"b": 1}, rescued={"a": 1})
    failed = event(1, "runner_on_failed", host="a", task="t", res={"msg": "no"})
    progress, _lines = fed(play(0, "p"), task(0, "t"), *starts(0, "a", "b"), failed, stats)
    hosts = progress.result()["hosts"]
    assert (hosts["a"]["state"], hosts["a"]["ok"], hosts["a"]["rescued"]) == ("done", 7, 1)
    assert (hosts["b"]["state"], progress.verdict()) == ("unreachable", "unreachable")


def explained(unreachable: bool) -> tuple[Progress, list[Line]]:
    """Return a run that ends with explained problems. Hosts b and c are unreadable or fine; a fails for all."""
    lost = [
        event(1, "runner_on_unreachable", host="b", task="t", explained=True, ignore_errors=True, res={"msg": "no"}),
        event(1, "runner_on_failed", host="c", task="t", explained=True, res={"msg": "no"}),
    ]
    problems = event(2, "runner_on_ok", host="a", task="t", task_action="debug", closing=True, res={"msg": ["b: no"]})
    failed = event(3, "runner_on_failed", host="a", task="t", task_action="fail", explained=True, res={"msg": "no"})
    stats = event(4, "playbook_on_stats", ok={"a": 1, "b": 1, "c": 1}, failures={"a": 1}, rescued={"c": 1})
    return fed(
        play(0, "p"),
        task(0, "t"),
        *starts(0, "a", "b", "c"),
        *lost * unreachable,
        *starts(2, "a"),
        problems,
        failed,
        stats,
    )


def test_explained_failures_are_only_shown_at_the_end() -> None:
    progress, lines = explained(True)
    assert {line.kind for line in lines} == {"phase"}
    assert [line.text for line in progress.closing] == ["b: no"]
    result = progress.result()
    assert {name: host["state"] for name, host in result["hosts"].items()} == {
        "a": "unfinished",
        "b": "unreachable",
        "c": "failed",
    }
    assert result["explained"] is True


def test_without_another_failed_host_the_one_that_fails_for_all_is_failed() -> None:
    result = explained(False)[0].result()
    assert {name: host["state"] for name, host in result["hosts"].items()} == {
        "a": "failed",
        "b": "unfinished",
        "c": "unfinished",
    }


def test_a_task_can_have_advice_for_its_failure() -> None:
    failed = event(1, "runner_on_failed", host="a", task="t", next="correct the command", res={"msg": "no"})
    progress, _lines = fed(play(0, "p"), task(0, "t"), *starts(0, "a"), failed)
    assert progress.next == "correct the command"


def test_the_summary_of_an_aborted_run_includes_its_last_task() -> None:
    result = fed(play(100, "p"), task(100, "Take long"), *starts(100, "a", name="Take long"))[0].result(142)
    assert (result["seconds"], result["phases"][0]["seconds"], result["phase"]) == (42, 42, "p")
    assert (result["hosts"]["a"]["state"], result["hosts"]["a"]["task"]) == ("unfinished", "Take long")


def test_a_cleanup_after_a_failure_is_not_reported_as_the_failed_phase() -> None:
    failed = event(1, "runner_on_failed", host="a", task="t", res={"msg": "no"})
    stats = event(3, "playbook_on_stats", failures={"a": 1}, ok={"a": 1})
    events = [play(0, "p"), task(0, "t", "first"), task(0, "t", "acceptance"), *starts(0, "a"), failed]
    progress, _lines = fed(*events, task(2, "u", "first"), *starts(2, "a"), ok(3, "a"), stats)
    assert progress.result()["phase"] == "Acceptance"


def test_a_run_without_any_task_means_bad_input() -> None:
    assert Progress().result()["seconds"] == 0
    assert Progress().verdict() == "bad input"


def test_an_error_is_shown_once_even_if_loop_items_failed_before() -> None:
    _progress, lines = fed(
        play(0, "p"),
        task(0, "t"),
        *starts(0, "a"),
        event(1, "runner_item_on_failed", host="a", task="t", res={"msg": "no such file", "item": "x", "rc": 2}),
        event(2, "runner_on_failed", host="a", task="t", res={"msg": "One or more items failed", "results": [1]}),
    )
    assert lines[1:] == [Line("failed", "a", "t: x: no such file\nrc: 2")]


def test_changes_and_messages_are_shown() -> None:
    said = event(2, "runner_on_ok", host="a", task="Tell", task_action="debug", res={"msg": ["6 of 6", "fine"]})
    progress, lines = fed(play(0, "p"), task(0, "t"), *starts(0, "a"), ok(1, "a", changed=True), said)
    assert lines[1:] == [Line("message", "a", "6 of 6\nfine")]
    assert progress.close() == [Line("changed", "a", "t")]


def test_hosts_with_the_same_change_share_a_line_at_the_end_of_the_task() -> None:
    hosts = [f"gpu{number}" for number in range(20)]
    changes = [ok(1, host, changed=True) for host in hosts]
    _progress, lines = fed(play(0, "p"), task(0, "t"), *starts(0, *hosts), *changes, task(2, "u"))
    assert lines[1:] == [Line("changed", "gpu0, gpu1, gpu2, gpu3 and 16 more", "t")]


def test_hosts_with_the_same_failure_are_named_with_the_first_one() -> None:
    fails = [event(1, "runner_on_failed", host=host, task="t", res={"msg": "no space"}) for host in "abc"]
    other = event(1, "runner_on_failed", host="d", task="t", res={"msg": "no key"})
    _progress, lines = fed(
        play(0, "p"), task(0, "t"), *starts(0, *"abcd"), *fails, other, event(2, "playbook_on_stats")
    )
    assert lines[1:] == [
        Line("failed", "a", "t: no space"),
        Line("failed", "d", "t: no key"),
        Line("failed", "b, c", "t: as on a"),
    ]


def test_phases_are_numbered_if_the_plays_are_known() -> None:
    plays = [event(0, "playbook_on_play_start", name=name, number=f"{n}/2") for n, name in ((1, "p"), (2, "q"))]
    progress, lines = fed(plays[0], task(0, "t"), plays[1], task(1, "t", "host"), task(2, "t", "flannel"))
    assert [line.text for line in lines] == ["1/2 p", "2/2 q", "2/2 Flannel"]
    assert [phase["title"] for phase in progress.result()["phases"]] == ["p", "q", "Flannel"]


@pytest.mark.parametrize(
    ("hosts", "height", "lines"),
    [
        (2, 4, ["0:09 p", "  0:07 h0: waits for h1", "  0:09 h1: t"]),
        (
            100,
            22,
            [
                "0:09 p",
                "  0:09 99 of 100: t",
                "       h1, h2, h3, h4 and 95 more",
                "  0:07 1 of 100: waits for h1, h2, h3, h4 and 95 more",
                "       h0",
            ],
        ),
        (100, 4, ["0:09 p", "  0:09 99 of 100: t", "  0:07 1 of 100: waits for h1, h2, h3, h4 and 95 more"]),
        (100, 2, ["0:09 p", "  and 100 more"]),
    ],
)
def test_the_live_view_fits_its_height(hosts: int, height: int, lines: list[str]) -> None:
    progress, _lines = fed(play(0, "p"), task(0, "t"), *starts(0, *(f"h{n}" for n in range(hosts))), ok(2, "h0"))
    assert progress.view(9, height) == lines


def test_a_narrow_terminal_truncates_neither_time_nor_hosts() -> None:
    names = [f"gpu{number:02}" for number in range(1, 41)]
    title = "Add NVIDIA's CUDA repository, keep nouveau out, and install what the driver is built with"
    progress, _lines = fed(play(0, "p"), task(0, title), *starts(0, *names, name=title))
    assert [clip(line, 79) for line in progress.view(725, 22)] == [
        "12:05 p",
        " 12:05 40 of 40: Add NVIDIA's CUDA repository, keep nouveau out, and install w…",
        "       gpu01, gpu02, gpu03, gpu04 and 36 more",
    ]


def test_task_names_are_shown_with_their_variables_filled_in() -> None:
    done = event(1, "runner_on_ok", host="a", task="Say {{ x }}", task_uuid="u", res={"changed": True})
    assert fed(play(0, "p"), task(0, "Say 2", uuid="u"), done)[0].close() == [Line("changed", "a", "Say 2")]


def test_hidden_results_stay_hidden() -> None:
    hidden = {"censored": "hidden by no_log", "_ansible_no_log": True, "msg": "SECRET", "stdout": "SECRET"}
    _progress, lines = fed(play(0, "p"), task(0, "t"), event(1, "runner_on_failed", host="a", task="t", res=hidden))
    assert lines[-1].text == "t: hidden by no_log"


def test_an_earlier_run_determines_the_expected_number_of_tasks() -> None:
    progress = Progress(fed(*API_PLAY)[0].result())
    for each in API_PLAY[:4]:
        progress.feed(each)
    assert [row.phase.expected for row in progress.rows()] == [1, 1]


@pytest.mark.parametrize("before", [None, [], {"phases": 7}, {"phases": [None, {}, {"tasks": "x", "play": "p"}]}])
def test_an_invalid_earlier_run_is_ignored(before: Any) -> None:
    progress = Progress(before)
    progress.feed(play(0, "p"))
    progress.feed(task(0, "t"))
    assert progress.phase and progress.phase.expected is None


KINDS = st.sampled_from(
    [
        "playbook_on_start",
        "playbook_on_play_start",
        "playbook_on_task_start",
        "playbook_on_stats",
        "runner_on_start",
        "runner_on_ok",
        "runner_on_failed",
        "runner_on_skipped",
        "runner_on_unreachable",
        "runner_retry",
        "runner_item_on_ok",
        "runner_item_on_failed",
        "verbose",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
HOSTS = st.sampled_from(["a", "b", "c"])
DATA = st.fixed_dictionaries(
    {},
    optional={
        "host": HOSTS | JSON,
        "task": st.text() | JSON,
        "name": st.text() | JSON,
        "role": st.text() | JSON,
        "task_action": st.sampled_from(["debug", "copy"]) | JSON,
        "task_uuid": JSON,
        "ignore_errors": JSON,
        "res": st.dictionaries(st.sampled_from(["msg", "changed", "item", "results", "censored", "rc", "x"]), JSON)
        | JSON,
        **{name: st.dictionaries(HOSTS, JSON) | JSON for name in (*COUNTS, "dark", "failures")},
    },
)
CREATED = st.floats(0, 1e9) | JSON | st.datetimes().map(lambda moment: moment.isoformat())
EVENTS = st.fixed_dictionaries({"event": KINDS | JSON, "created": CREATED, "event_data": DATA | JSON}) | JSON


@given(st.lists(EVENTS, max_size=20))
def test_any_events_are_accepted_and_the_summary_stays_consistent(events: list[Any]) -> None:
    progress = Progress()
    lines = [line for each in events for line in progress.feed(each)]
    result = progress.result()
    assert sum(phase["seconds"] for phase in result["phases"]) <= result["seconds"] + 0.01 * (len(events) + 1)
    assert all(phase["title"] is not None and phase["seconds"] >= 0 for phase in result["phases"])
    assert all("\x1b" not in line.text and "\r" not in line.text for line in lines)
    assert {row.host for row in progress.rows()} <= set(result["hosts"])
    assert all(len(progress.view(0, height)) <= height for height in (2, 3, 22))
    assert "\n" not in progress.waiting_for()


@given(st.lists(st.tuples(st.sampled_from(["cp1", "gpu1", "gpu2"]), st.floats(0, 100)), min_size=1, max_size=30))
def test_the_phases_of_valid_runs_add_up_to_the_total(steps: list[tuple[str, float]]) -> None:
    at, events = 1000.0, [play(1000.0, "p")]
    for number, (host, seconds) in enumerate(steps):
        events += [task(at, "t", f"role_{number % 3}"), *starts(at, host), ok(at := at + seconds, host)]
    progress, _lines = fed(*events, event(at, "playbook_on_stats", ok={}))
    assert sum(phase["seconds"] for phase in progress.result()["phases"]) == pytest.approx(at - 1000, abs=0.05)


def test_the_controller_does_not_count_as_a_host_if_it_only_skipped_tasks() -> None:
    stats = event(110, "playbook_on_stats", ok={"cp1": 2}, skipped={"cp1": 1, "localhost": 3})
    progress, _lines = fed(play(100, "p"), task(101, "t"), *starts(101, "cp1", "localhost"), ok(103, "cp1"), stats)
    assert set(progress.result(110)["hosts"]) == {"cp1"}
    stats = event(110, "playbook_on_stats", ok={"localhost": 1}, skipped={"localhost": 3})
    progress, _lines = fed(play(100, "p"), task(101, "t"), *starts(101, "localhost"), ok(103, "localhost"), stats)
    assert set(progress.result(110)["hosts"]) == {"localhost"}
