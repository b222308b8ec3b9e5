"""The points of `make fire`: how they are chosen, waited for and recorded, and what its faults end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fire import faults
from fire.points import CONTROLLER, POWER, RUN, Point, Progress, Step, choose, steps

STEPS = [Step(f"role : task {number}", 0, float(number), 1.0, changes=number % 3 == 0) for number in range(12)]


def test_steps_are_read_from_the_events_of_a_run() -> None:
    events: list[dict[str, Any]] = [
        {"event": "play", "name": "p"},
        {"event": "task", "role": "host", "task": "host : Write", "at": 10.0},
        {"event": "result", "task": "host : Write", "status": "changed"},
        {"event": "task", "role": "host", "task": "host : Read", "at": 12.5},
        {"event": "result", "task": "host : Read", "status": "ok"},
        {"event": "task", "role": "host", "task": "host : Write", "at": 13.0},
    ]
    assert steps(events, 15.0) == [
        Step("host : Write", 0, 10.0, 2.5, changes=True),
        Step("host : Read", 0, 12.5, 0.5, changes=False),
        Step("host : Write", 1, 13.0, 2.0, changes=True),
    ]


def test_every_listed_step_comes_once_before_any_comes_twice_and_every_kind_is_used() -> None:
    # The random moments are all in the last step, which changes nothing.
    known = [*STEPS, Step("role : long", 0, 12.0, 1e9, changes=False)]
    points = choose(known, ["cp1", "gpu1"], 12, "seed")
    listed = [point.task for point in points if point.task != "role : long"]
    assert len(listed) == 6 and sorted(listed[:4]) == [f"role : task {number}" for number in (0, 3, 6, 9)]
    assert {point.node for point in points if point.kind == POWER} <= {"cp1", "gpu1"}
    assert {point.node for point in points if point.kind != POWER} == {""}
    assert all(0 <= point.delay <= 1 for point in points if point.task != "role : long")


@pytest.mark.parametrize(("nodes", "kinds"), [(["cp1"], [RUN, CONTROLLER, POWER]), ([], [RUN, CONTROLLER])])
def test_each_kind_comes_at_a_listed_step_and_at_a_random_moment_in_any_order(
    nodes: list[str], kinds: list[str]
) -> None:
    known = [*STEPS, Step("role : long", 0, 12.0, 1e9, changes=False)]
    orders = set()
    for seed in "abcdef":
        drawn = [(point.kind, point.task == "role : long") for point in choose(known, nodes, 2 * len(kinds), seed)]
        assert sorted(drawn) == sorted((kind, at_random) for kind in kinds for at_random in (False, True))
        orders.add(tuple(drawn))
    assert len(orders) > 1


def test_a_seed_repeats_the_points_and_another_one_does_not() -> None:
    assert choose(STEPS, [], 10, "a") == choose(STEPS, [], 10, "a") != choose(STEPS, [], 10, "b")
    assert {point.kind for point in choose(STEPS, [], 10, "a")} == {RUN, CONTROLLER}


def test_a_pattern_selects_the_steps_and_one_that_matches_none_is_an_error() -> None:
    known = [*STEPS, Step("role : long", 0, 12.0, 1e9, changes=False)]
    assert {point.task for point in choose(known, [], 10, "a", "task 5$")} == {"role : task 5", "role : long"}
    for known, pattern, words in ((STEPS, "kubeadm", "matches 'kubeadm'"), (STEPS[1:3], "", "changes anything")):
        with pytest.raises(LookupError, match=words):
            choose(known, [], 10, "a", pattern)


def test_an_interrupted_fire_goes_on_with_the_points_that_are_left(tmp_path: Path) -> None:
    points = choose(STEPS, ["cp1"], 3, "a")
    key = {"play": "site.yml", "seed": "a", "commit": "1", "steps": ""}
    progress = Progress(tmp_path / "progress.json", key, points, [])
    progress.add("passed", 12.3)
    progress.add("failed", 4, "lost", during="role : later")
    found = Progress.load(progress.path, key)
    assert found and found.left == points[2:] and found.results[1]["why"] == "lost"
    assert found.results[1]["during"] == "role : later"
    assert found.summary() == "site.yml, seed a: 1 passed, 1 failed, 0 missed; 1 of 3 left"
    assert all(Progress.load(progress.path, key | {name: "other"}) is None for name in key)
    assert Progress.load(tmp_path / "none", key) is None


def task(name: str) -> str:
    return json.dumps({"event": "task", "role": "r", "task": name, "at": 1.0}) + "\n"


def test_a_fault_waits_for_the_right_start_of_its_task(tmp_path: Path) -> None:
    events, fired = tmp_path / "events.jsonl", []
    trigger = faults.Trigger(events, Point(RUN, "r : t", 1, 0.0), lambda: fired.append(time.monotonic()))
    trigger.start()
    events.write_text(task("r : t") + task("r : other") + task("r : t")[:-10])
    time.sleep(0.2)
    assert not fired
    events.write_text(task("r : t") + task("r : other") + task("r : t"))
    trigger.join(10)
    assert len(fired) == 1 and trigger.fired and trigger.during == "r : t"


def test_the_task_that_a_fault_really_interrupted_is_recorded(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(task("r : t"))
    trigger = faults.Trigger(events, Point(RUN, "r : t", 0, 0.4), lambda: None)
    trigger.start()
    time.sleep(0.1)
    with events.open("a") as file:
        file.write(task("r : later"))
    trigger.join(10)
    assert trigger.during == "r : later"


def test_a_moment_that_does_not_come_is_no_fault_and_a_failing_fault_is_raised(tmp_path: Path) -> None:
    missed = faults.Trigger(tmp_path / "none", Point(RUN, "r : t", 0, 0.0), lambda: None)
    missed.start()
    missed.stop()
    assert not missed.fired
    (tmp_path / "events").write_text(task("r : t"))
    failing = faults.Trigger(tmp_path / "events", Point(RUN, "r : t", 0, 0.0), lambda: 1 / 0)
    failing.start()
    failing.join(10)
    with pytest.raises(ZeroDivisionError):
        failing.stop()
    (tmp_path / "damaged").write_text("not an event\n")
    damaged = faults.Trigger(tmp_path / "damaged", Point(RUN, "r : t", 0, 0.0), lambda: None)
    damaged.start()
    damaged.join(10)
    with pytest.raises(ValueError):
        damaged.stop()


# A run with a worker in a session of its own, and a process that has detached itself, as connections do.
PROGRAM = """
import subprocess, time
subprocess.Popen(["sleep", "60"], start_new_session=True)
subprocess.run("sleep 60 >/dev/null &", shell=True, start_new_session=True)
print("started", flush=True)
time.sleep(60)
"""


@pytest.fixture
def run(tmp_path: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "GPULAB_EVENTS": str(tmp_path / "events")}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout and process.stdout.readline() == "started\n"
    return process


def test_the_controller_dies_with_all_that_the_run_started_and_the_run_with_its_descendants(
    run: subprocess.Popen[str], tmp_path: Path
) -> None:
    marker, sockets = str(tmp_path / "events"), tmp_path / "cp"
    sockets.mkdir()
    given = {**os.environ, "GPULAB_EVENTS": "", "TMPDIR": marker, "OTHER": f"GPULAB_EVENTS={marker}"}
    unrelated = subprocess.Popen(["sleep", "60"], env=given)
    assert len(faults.processes(marker)) == 3
    faults.kill_run(marker)
    assert run.wait(10) == -9
    end = time.monotonic() + 10
    while len(faults.processes(marker)) > 1 and time.monotonic() < end:
        time.sleep(0.01)
    assert len(faults.processes(marker)) == 1
    faults.kill_controller(marker, sockets)
    assert faults.processes(marker) == [] and not sockets.exists()
    assert unrelated.poll() is None
    unrelated.kill()
    unrelated.wait()
