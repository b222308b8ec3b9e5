# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The problems of a run on one screen: every cause is shown or counted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._preflight.failure import failure
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._preflight.model import Cluster, Reading
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._preflight.problem_text import (
    causes,
    full_text,
    known_fields,
    screen,
)
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._progress.text import columns
from hypothesis import given
from hypothesis import strategies as st

FILE = "gpulab-problems.txt"
SSH = "Task failed: Failed to connect to the host via ssh: "
WORDS = st.lists(st.text("abcdefghij/=-", min_size=1, max_size=90), min_size=1, max_size=40).map(" ".join)


def unread(host: str, message: str, unreachable: bool = True) -> dict[str, Any]:
    reading = Reading(host, {}, {"unreachable": unreachable, "msg": message})
    (found,) = failure(reading, Cluster((reading,), {"ansible_core": "2.21.5"}))
    return found.fields()


def problem(host: str, what: str = "no disk", do: str = "Buy one", **more: Any) -> dict[str, Any]:
    return {"kind": "disk", "host": host, "what": what, "where": "disk", "why": "Images", "do": do, **more}


def rows(lines: list[str]) -> int:
    return sum(max(-(-len(line) // 80), 1) for line in lines)


@given(
    st.lists(st.tuples(st.integers(0, 60), WORDS, WORDS), min_size=1, max_size=40),
    st.sampled_from(["", f"The settings are in {'/home/me/' * 9}answers.yml. Review this file."]),
    st.sampled_from(["", "Permission denied\n" * 20]),
)
def test_every_cause_is_shown_or_counted(found: list[tuple[int, str, str]], note: str, error: str) -> None:
    problems = [problem(f"gpu{number:02}", what, do) for number, what, do in found]
    lines, is_short = screen(problems, note, FILE, error)
    named = causes(problems)
    assert lines[0].startswith(f"{len(named)} problem")
    if error and FILE in lines[-1]:
        # No file contains the remaining causes, so all are shown.
        assert not is_short and sum("do:" in row for row in lines) == len(named)
        return
    assert rows(lines) <= 18
    left_out = next((int(row.split()[1]) for row in lines if re.fullmatch(r"and \d+ more", row)), 0)
    titles = [row for row in lines if re.match(r"gpu\d\d", row)]
    assert not is_short or len(titles) + left_out == len(named)
    assert not left_out or lines.count(f"and {left_out} more") == 1
    # If there is enough space, each cause has a remedy.
    assert left_out or 2 * len(named) > 11 or sum("do:" in row for row in lines) == len(named)
    # The file contains the full text.
    assert not is_short or any(FILE in row for row in lines)
    whole = full_text(problems, note)
    assert all(each[key] in whole for each in problems for key in ("host", "what", "why", "do"))


@pytest.mark.parametrize(
    ("message", "unreachable", "remedy"),
    [
        ("ssh: connect to host 192.0.2.{n} port 22: Connection timed out", True, "Check that it runs"),
        ("ssh: connect to host 192.0.2.{n} port 22: Connection refused", True, "Check ansible_port"),
        ("admin@192.0.2.{n}: Permission denied (publickey).", True, "ssh-copy-id admin@ADDRESS"),
        ("ssh: Could not resolve hostname gpu{n}: Name or service not known", True, "Set ansible_host of HOST"),
        ("words of a banner {n} times\nHost key verification failed.", True, "ssh ADDRESS"),
        ("something that nobody has seen at 192.0.2.{n}", True, "Try: ansible HOST"),
        ("Missing sudo password", False, "-K"),
    ],
)
def test_hosts_with_the_same_cause_share_an_entry(message: str, unreachable: bool, remedy: str) -> None:
    problems = [unread(f"gpu{n}", SSH * unreachable + message.format(n=n), unreachable) for n in range(1, 40)]
    (cause,) = causes(problems)
    assert len(cause.hosts) == 39 and remedy in cause.do
    (own,) = causes(problems[:1])
    assert own.do == problems[0]["do"], "of one host its name and address are printed"
    whole = full_text(problems)
    assert all(problem["what"] in whole for problem in problems)


def test_causes_with_further_differences_have_separate_entries() -> None:
    problems = [
        unread("gpu1", SSH + "an unknown message"),
        unread("gpu2", SSH + "another unknown message"),
        unread("gpu3", SSH + "ops@192.0.2.3: Permission denied (publickey)."),
        unread("gpu4", SSH + "admin@192.0.2.4: Permission denied (publickey)."),
        problem("gpu5", "3 MiB"),
        problem("gpu6", "4 MiB"),
        problem("", "the whole cluster"),
    ]
    assert len(causes(problems)) == len(problems)


def test_the_longest_remedies_are_shortened_first() -> None:
    problems = [problem(f"gpu{n}", f"what {n}", "Do this") for n in range(5)]
    problems.append(problem("gpu9", "what 9", "First do this and that. " * 30))
    lines, is_short = screen(problems, "", FILE)
    assert is_short and len(lines) == 18
    assert lines.count("  do: Do this") == 5
    assert sum("this and that" in line for line in lines) > 2 and lines[-2].endswith(" …")


def test_settings_that_keep_existing_installations_are_named() -> None:
    kept = problem("gpu1", answers={"cluster_existing_packages": "keep"})
    assert "     set:   cluster_existing_packages: keep" in screen([kept], "", FILE)[0]
    lines, _short = screen([kept, *(problem(f"gpu{n}", f"what {n}") for n in range(2, 6))], "", FILE)
    assert "  do: Buy one; or set cluster_existing_packages: keep" in lines


def test_machine_readable_problems_have_known_fields() -> None:
    (found,) = known_fields([problem("gpu1", answers={"a": "b"}, remedies=[{}], other=1)])
    assert found == {
        "kind": "disk",
        "host": "gpu1",
        "what": "no disk",
        "where": "disk",
        "why": "Images",
        "do": "Buy one",
    }


def test_a_long_word_is_shortened_but_not_omitted() -> None:
    found = [problem(f"gpu{number}", f"{number}{'w' * 200}", "d" * 200) for number in range(8)]
    lines, is_short = screen(found, "", FILE)
    assert is_short and rows(lines) <= 18
    assert sum("www" in row for row in lines) == sum("ddd" in row for row in lines) == 8


def test_wide_characters_take_two_columns() -> None:
    found = [problem(f"gpu{number}", f"{number} " + "機器 " * 60) for number in range(5)]
    lines, _is_short = screen(found, "", FILE)
    assert sum(max(-(-columns(line) // 80), 1) for line in lines) <= 18


def test_causes_are_counted_correctly_if_a_note_needs_all_the_space() -> None:
    note = f"{'/home/me' * 200}/answers.yml was not written."
    lines, is_short = screen([problem(f"gpu{number}", str(number)) for number in range(30)], note, FILE)
    assert is_short and "and 30 more" in lines


def test_an_empty_message_leaves_no_colon_at_the_end() -> None:
    (cause,) = causes([unread("gpu1", SSH.strip())])
    assert not cause.short.rstrip().endswith(":")
