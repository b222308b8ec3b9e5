"""Measure the times that this collection promises, and print them as JSON.

The script creates a lab twice: for site.yml, and for the same cluster by hand (by_hand.sh). Only the depot is kept
between the two. Progress goes to standard error.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cpu
import fleet
import gpus
import readers
import runner
import training
from support.hosts import ROOT, Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, play

HERE = Path(__file__).resolve().parent
SPEC = Path(os.environ.get("SPEC", ROOT / "lab" / "specs" / "default.yml"))
LIMITS = {
    "lab_cached_s": 300,
    "site_by_hand": 1.2,
    "second_run_first_run": 0.12,
    "second_run_by_hand": 0.13,
    "second_run_tasks": 60,
    "plan_second_run": 1.0,
    "remote_executions_per_host": 3,
    "runner_overhead": runner.LIMIT,
}
# The output of site.yml as a user sees it, so that its cost is measured too.
SHOWN = {"ANSIBLE_STDOUT_CALLBACK": "gpulab.kubernetes.progress"}
T = TypeVar("T")


def timed(what: str, action: Callable[[], T]) -> tuple[T, float]:
    """Run an action, print how long it took, and return its result with the seconds."""
    print(f"bench: {what} ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    result = action()
    seconds = round(time.monotonic() - started, 1)
    print(f"bench: {what}: {seconds} s", file=sys.stderr, flush=True)
    return result, seconds


def median(what: str, action: Callable[[], T]) -> tuple[T, float]:
    """Run an action three times and return the median seconds: single short runs differ by up to 15 %."""
    runs = [timed(what, action) for _ in range(3)]
    return runs[-1][0], statistics.median(seconds for _, seconds in runs)


@contextmanager
def bare_lab(name: str) -> Iterator[tuple[Lab, float]]:
    """Yield bare nodes and the seconds that they took, including a depot build that has nothing to do."""
    started = time.monotonic()
    lab_command("build")
    with running(name, SPEC) as lab:
        seconds = round(time.monotonic() - started, 1)
        print(f"bench: bare nodes: {seconds} s", file=sys.stderr, flush=True)
        yield lab, seconds


def by_ansible() -> dict[str, object]:
    with bare_lab("bench") as (lab, up):
        first, site = timed("site.yml on bare nodes", lambda: play(lab.path, env=SHOWN).expect_success())
        second, again = median("site.yml a second time", lambda: play(lab.path, env=SHOWN).expect_unchanged())
        _, plan = median(
            "plan.yml", lambda: play(lab.path, playbook="playbooks/plan.yml", env=SHOWN).expect_unchanged()
        )
        spent, _ = timed("the CPU seconds of a second run", lambda: cpu.measure(lab.path))
        fleets, _ = timed("a second run on simulated hosts", lambda: fleet.few(lab.inventory()))
        overhead, _ = timed("the second run through ansible-runner and without", lambda: runner.measure(lab.path))
        checked, check = timed("site.yml --check", lambda: play(lab.path, "--check").expect_unchanged())
        trained, _ = timed("trainings on one node and on two", lambda: training.measure(lab))
        without, _ = timed("GPU pods through site.yml, MIG and back, another driver", lambda: gpus.measure(lab))
    return {
        "lab_cached_s": round(up + site, 1),
        "bare_nodes_s": up,
        "site_s": site,
        "site_s_per_role": per_role(first),
        "second_run_s": again,
        "second_run_tasks": second.tasks(),
        "cpu": spent,
        "plan_s": plan,
        "runner_overhead": overhead,
        "check_s": check,
        "fleet": fleets,
        "training": trained,
        "gpus": without,
        "remote_executions_per_host": second.executions(),
        "remote_executions_per_host_first_run": first.executions(),
        "remote_executions_per_host_check": checked.executions(),
    }


def per_role(run: Run) -> dict[str, float]:
    """Return the seconds spent in each role, from the start of one task to the start of the next."""
    seconds: dict[str, float] = {}
    tasks = [event for event in run.events if event["event"] == "task"]
    for task, following in zip(tasks, tasks[1:], strict=False):
        seconds[task["role"]] = seconds.get(task["role"], 0) + following["at"] - task["at"]
    return {role: round(value, 1) for role, value in seconds.items()}


def by_hand() -> float:
    with bare_lab("bench-by-hand") as (lab, _), tempfile.TemporaryDirectory(prefix="by-hand-") as scratch:
        work = Path(scratch)
        prepare(lab, work)
        script = ["bash", str(HERE / "by_hand.sh"), str(work)]
        log = ROOT / ".cache" / "by_hand.log"
        with log.open("w") as output:
            done, seconds = timed(
                "the same by hand", lambda: subprocess.run(script, stdout=output, stderr=subprocess.STDOUT)
            )
        if done.returncode:
            raise SystemExit(f"by_hand.sh ended with {done.returncode}; the end of {log}:\n{log.read_text()[-3000:]}")
    return seconds


def prepare(lab: Lab, work: Path) -> None:
    """Write what a person has at hand before the first command: addresses, versions, manifests."""
    inventory = Inventory.read(lab.path)
    (work / "manifests").mkdir()
    command = ["ansible-playbook", str(HERE / "render.yml"), "-i", str(lab.path), "-e", f"work={work}"]
    subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    gpus = inventory.expected_gpus()
    for host in inventory.hosts.values():
        (work / f"ssh-{host.name}").write_text("\n".join(host.ssh()) + "\n")
    (work / "hosts").write_text("".join(f"{name} {gpus.get(name, 0)}\n" for name in inventory.hosts))
    (work / "control_plane").write_text(inventory.control_plane.name + "\n")


def main() -> None:
    figures: dict[str, object] = {"machine": {"cores": os.cpu_count(), "system": platform.platform()}, "limits": LIMITS}
    figures["readers"] = readers.measure()
    # Directly one after the other: a machine's speed can change by a fifth within a quarter of an hour.
    hand = by_hand()
    figures.update(by_ansible())
    fleets = cast(dict[str, object], figures["fleet"])
    many, _ = timed("plan.yml on many bare nodes", lambda: fleet.many(cast(float, fleets["few_nodes_s"])))
    fleets.update(many)
    site, again, plan = (cast(float, figures[name]) for name in ("site_s", "second_run_s", "plan_s"))
    figures["by_hand_s"] = hand
    figures["ratios"] = {
        "site_by_hand": round(site / hand, 2),
        "second_run_first_run": round(again / site, 3),
        "second_run_by_hand": round(again / hand, 3),
        "plan_second_run": round(plan / again, 2),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
