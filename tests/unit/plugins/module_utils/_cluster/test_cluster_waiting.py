# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.waiting import StuckFor, until, until_gone


def test_only_a_problem_that_lasts_without_a_break_counts_as_stuck() -> None:
    stuck = StuckFor(60)
    assert not stuck.exceeded(["image"], 0)
    assert not stuck.exceeded([], 30)
    assert not stuck.exceeded(["image"], 61)
    assert not stuck.exceeded(["image", "other"], 100)
    assert stuck.exceeded(["image"], 121)


def test_another_process_continues_the_wait() -> None:
    first = StuckFor(60)
    assert not first.exceeded(["image"], 0)
    assert StuckFor(60, first.since).exceeded(["image"], 60)


@pytest.mark.parametrize(
    ("left", "timeout", "expected", "looks"),
    [
        ([[]], 0, [], 1),
        ([["a"], []], 0, ["a"], 1),
        ([["a"], ["a", "b"], []], 60, [], 3),
    ],
)
def test_wait_ends_when_nothing_is_missing_or_at_the_timeout(
    left: list[list[str]], timeout: float, expected: list[str], looks: int
) -> None:
    rest = iter(left)
    assert until_gone(lambda: next(rest), timeout) == expected
    assert len(list(rest)) == len(left) - looks


def test_time_during_an_outage_does_not_count() -> None:
    looks: list[int] = []
    until(lambda: looks.append(1), lambda _found: False, 60, lambda: 60 if len(looks) == 3 else 0)
    assert len(looks) == 3


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (0.1, [(0, 0.1), (10, 1), (60, 3), (600, 5)]),
        (2.0, [(0, 2), (10, 2), (60, 3), (600, 5)]),
    ],
)
def test_checks_become_less_frequent_over_time(
    first: float, expected: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[tuple[float, float]] = []
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        naps.append((now, seconds))
        now += seconds

    monkeypatch.setattr("time.sleep", sleep)
    until(lambda: None, bool, 900, lambda: now, first)
    for after, pause in expected:
        assert next(nap for began, nap in naps if began >= after) == pytest.approx(pause, abs=0.3)


def test_the_last_result_is_returned() -> None:
    numbers = iter(range(9))
    assert until(lambda: next(numbers), lambda number: number == 2, 60) == 2
