# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._progress.text import (
    account,
    clip,
    clock,
    duration,
    printable,
    said,
    seconds_of,
    title_of,
    what_failed,
    written,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("seconds", "words", "column"),
    [
        (0, "0.0 s", "0:00"),
        (3.24, "3.2 s", "0:03"),
        (9.96, "10 s", "0:09"),
        (59.4, "59 s", "0:59"),
        (59.7, "1 min 00 s", "0:59"),
        (125, "2 min 05 s", "2:05"),
        (3725, "62 min 05 s", "62:05"),
    ],
)
def test_durations_are_formatted(seconds: float, words: str, column: str) -> None:
    assert (duration(seconds), clock(seconds)) == (words, column)


@pytest.mark.parametrize(
    ("created", "seconds"),
    [
        ("1970-01-01T00:01:40+00:00", 100),
        ("1970-01-01T01:01:40+01:00", 100),
        ("1970-01-01T00:01:40.500000", 100.5),
        (100, 100),
        ("yesterday", 7),
        (None, 7),
        (float("nan"), 7),
        (float("inf"), 7),
        (10**400, 7),
        (3, 7),
        ({}, 7),
    ],
)
def test_invalid_times_repeat_the_last_time(created: Any, seconds: float) -> None:
    assert seconds_of(created, 7) == seconds


def test_titles_are_derived_from_role_names() -> None:
    assert title_of("nvidia_device_plugin") == "Nvidia device plugin"


FAILURES: list[tuple[dict[str, Any], str]] = [
    ({"msg": "no", "changed": False, "invocation": {"a": 1}}, "no"),
    (
        {"msg": "no", "rc": 3, "stdout": "out", "stderr": "two\nlines"},
        "no\nrc: 3\nstdout: out\nstderr:\n  two\n  lines",
    ),
    ({"msg": "it said: out", "stdout": "out"}, "it said: out"),
    # The digit is part of the message, so the exit status is still added.
    ({"msg": "no 3.1", "cmd": "x --y", "rc": 3}, "no 3.1\ncmd: x --y\nrc: 3"),
    ({"msg": "no", "item": "x", "ansible_loop_var": "item"}, "x: no"),
    ({"msg": "no", "item": {"a": 1}, "_ansible_item_label": "short"}, "short: no"),
    ({}, "no reason given"),
    ({"censored": "hidden", "msg": "SECRET"}, "hidden"),
    ({"msg": "a\x1b[2Jb\rc"}, "a?[2Jb c"),
    ({"msg": ["several", "lines"]}, '["several", "lines"]'),
    (
        {
            "msg": "Task failed: Finalization of task args for 'a.b.c' failed: Error while resolving value for 'x': "
            "The filter plugin 'a.b.page' failed: Error while reading the report: it has no hosts."
        },
        "Error while reading the report: it has no hosts.",
    ),
    (
        {"msg": "Task failed: The filter plugin 'int' failed: no number"},
        "Task failed: The filter plugin 'int' failed: no number",
    ),
]


@pytest.mark.parametrize(("res", "text"), FAILURES)
def test_an_error_is_shown_in_full_and_once(res: dict[str, Any], text: str) -> None:
    assert what_failed(res) == text


@pytest.mark.parametrize(
    ("res", "text"),
    [
        ({"msg": "one"}, "one"),
        ({"msg": ["one", "two"]}, "one\ntwo"),
        ({"msg": 7}, "7"),
        ({"gpus": [1, 2], "changed": False, "_ansible_verbose_always": True}, "gpus: [1, 2]"),
        ({"censored": "hidden"}, "hidden"),
    ],
)
def test_the_output_of_a_debug_task_is_its_message(res: dict[str, Any], text: str) -> None:
    assert said(res) == text


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        ("phase", "Make it", "[2:05] Make it"),
        ("changed", "Do it", "  a: changed: Do it"),
        ("message", "one\ntwo", "  a says:\n    one\n    two"),
        ("failed", "Do it: no\nrc: 1", "  a: FAILED: Do it: no\n    rc: 1"),
        ("unreachable", "Do it: no", "  a: UNREACHABLE: Do it: no"),
        ("ignored", "Do it: no", "  a: failed (ignored): Do it: no"),
    ],
)
def test_lines_are_formatted_by_kind(kind: str, text: str, line: str) -> None:
    assert written(kind, "a", text, 125) == line


def test_the_summary_lists_phases_and_hosts() -> None:
    host = {
        "state": "done",
        "ok": 5,
        "changed": 2,
        "skipped": 0,
        "failed": 0,
        "unreachable": 0,
        "rescued": 1,
        "ignored": 0,
    }
    result = {
        "seconds": 65,
        "phases": [{"title": "Make it", "seconds": 60.2}, {"title": "In no time", "seconds": 0.01}],
        "slowest": [{"task": "Wait", "phase": "Make it", "host": "a", "seconds": 42}],
        "hosts": {"a": host},
    }
    assert account(result) == [
        "Where the time went (1 min 05 s)",
        "  1 min 00 s  Make it",
        "Slowest tasks",
        "        42 s  a: Wait (Make it)",
        "Hosts",
        "  a  done         ok=5, changed=2, rescued=1",
        "Succeeded in 1 min 05 s: 2 changes on 1 host.",
    ]


@pytest.mark.parametrize(
    ("hosts", "check", "last"),
    [
        ({"a": ("done", 0), "b": ("done", 0)}, False, "Succeeded in 7.0 s: nothing to change on 2 hosts."),
        ({"a": ("done", 1), "b": ("done", 2)}, True, "Succeeded in 7.0 s: 3 changes on 2 hosts (predicted)."),
        (
            {"a": ("done", 1), "b": ("failed", 0), "c": ("unreachable", 0)},
            False,
            "Failed on b: c can't be reached: fix what is reported above, and run the same command again.",
        ),
        ({"a": ("unreachable", 0), "b": ("unreachable", 0)}, False, "Failed: a and b can't be reached: fix what"),
        ({"a": ("unfinished", 0)}, False, "Interrupted after 7.0 s: run the same command again"),
        ({}, False, "Hosts"),
    ],
)
def test_the_last_line_has_the_result_and_the_next_step(
    hosts: dict[str, tuple[str, int]], check: bool, last: str
) -> None:
    counts = dict.fromkeys(("ok", "skipped", "failed", "unreachable", "rescued", "ignored"), 0)
    found = {name: {**counts, "state": state, "changed": changed} for name, (state, changed) in hosts.items()}
    lines = account({"seconds": 7, "phases": [], "slowest": [], "hosts": found}, check)
    assert lines[-1].startswith(last)


@pytest.mark.parametrize(
    ("explained", "verbose", "then", "expected"),
    [
        (False, False, "", ["Hosts", "Failed on a: fix what is reported above, and run the same command again."]),
        (False, False, "correct the command", ["Hosts", "Failed on a: fix what is reported above, and correct the"]),
        (True, False, "", ["Failed. Fix what is listed below, and run the playbook again."]),
        (True, True, "", ["Where the time went", "Slowest tasks", "Hosts", "Failed. Fix what is listed below"]),
    ],
)
def test_after_a_failure_the_summary_is_short(explained: bool, verbose: bool, then: str, expected: list[str]) -> None:
    counts = dict.fromkeys(("ok", "changed", "skipped", "failed", "unreachable", "rescued", "ignored"), 0)
    result = {"seconds": 7, "phases": [], "slowest": [], "hosts": {"a": {**counts, "state": "failed"}}}
    lines = [line for line in account({**result, "explained": explained}, False, verbose, then) if line[0] != " "]
    assert len(lines) == len(expected)
    assert all(line.startswith(words) for line, words in zip(lines, expected))


def test_hosts_with_the_same_result_share_a_line() -> None:
    counts = dict.fromkeys(("ok", "changed", "skipped", "failed", "unreachable", "rescued", "ignored"), 0)
    found = {f"gpu{number:02}": {**counts, "state": "done"} for number in range(100)}
    lines = account({"seconds": 7, "phases": [], "slowest": [], "hosts": found})
    assert [line for line in lines if "gpu" in line] == [
        "  gpu00, gpu01, gpu02, gpu03 and 96 more  done         ok=0, changed=0"
    ]


@given(st.text(), st.integers(0, 80))
def test_a_truncated_line_fits(text: str, width: int) -> None:
    clipped = clip(text, width)
    columns = sum(
        2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in clipped
    )
    assert columns <= width
    assert "\n" not in clipped


@given(st.text())
def test_no_output_moves_the_cursor(text: str) -> None:
    assert all(c.isprintable() or c in "\n\t" for c in printable(text))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text() | st.sampled_from(["msg", "item", "stdout", "censored"]), JSON))
def test_any_result_can_be_formatted(res: dict[str, Any]) -> None:
    assert isinstance(said(res), str)
    assert what_failed(res).strip() or str(res.get("msg")).strip() == ""
