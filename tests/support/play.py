"""Runs of ansible-playbook and their results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.hosts import ROOT


@dataclass
class Run:
    """A finished ansible-playbook: its exit status, its output, and the callback's events."""

    status: int
    output: str
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def words(self) -> str:
        """The output without line breaks, which depend on the length of the lines."""
        return " ".join(self.output.split())

    def results(self, *statuses: str) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == "result" and (not statuses or e["status"] in statuses)]

    def changed(self) -> set[tuple[str, str]]:
        """Return the (host, "role : task") pairs that reported a change."""
        return {(e["host"], e["task"]) for e in self.results("changed")}

    def changed_tasks(self) -> set[str]:
        return {task for _, task in self.changed()}

    def failures(self) -> str:
        """Return the messages of all failures, one after the other, with the preflight problems in full."""
        failed = [f"{e['host']}: {e['task']}: {e['message']}" for e in self.results("failed", "unreachable")]
        shown = [" ".join(e["message"].split()) for e in self.results("ok") if e["task"].endswith("Show the problems")]
        problems = [": ".join(map(str, e.values())) for e in self.events if e["event"] == "problem"]
        return "\n".join([*failed, *shown, *problems])

    def stats(self) -> dict[str, dict[str, Any]]:
        return {e["host"]: e for e in self.events if e["event"] == "stats"}

    def executions(self) -> dict[str, int]:
        """Return how many modules ran on each remote host."""
        return dict(sorted(Counter(e["host"] for e in self.events if e["event"] == "execution").items()))

    def tasks(self) -> int:
        """Return the number of started tasks; a task counts once for all hosts."""
        return sum(event["event"] == "task" for event in self.events)

    def killed_in(self) -> str | None:
        return next((e["role"] for e in self.events if e["event"] == "killed"), None)

    def expect_success(self) -> Run:
        assert self.status == 0, f"ansible-playbook ended with {self.status}\n{self.failures()}\n{self.tail()}"
        return self

    def expect_unchanged(self) -> Run:
        self.expect_success()
        assert not self.changed(), f"reported changes: {sorted(self.changed())}"
        return self

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.output.splitlines()[-lines:])


def play(
    inventory: Path,
    *arguments: str,
    playbook: str = "site.yml",
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float = 1500,
) -> Run:
    """Run ansible-playbook until it or the callback ends it, and return the result.

    Afterwards its whole process group is killed, as by a power failure of the controller.
    """
    with tempfile.TemporaryDirectory(prefix="play-") as scratch:
        events = Path(scratch) / "events.jsonl"
        command = ["ansible-playbook", playbook, "-i", str(inventory), *arguments]
        return execute(command, cwd, {**os.environ, **environment(events), **(env or {})}, events, timeout)


def refused(path: Path, *arguments: str, playbook: str = "site.yml") -> str:
    """Run a playbook, assert that it refuses before any change, and return its message."""
    run = play(path, *arguments, playbook=playbook)
    assert run.status != 0, "the run was not refused"
    assert {event["role"] for event in run.results("ok", "changed", "failed")} <= {"", "preflight", "cluster"}
    assert run.changed() == set()
    return run.failures()


def variables(**values: object) -> list[str]:
    return ["--extra-vars", json.dumps(values)]


def execute(command: list[str], cwd: Path, env: Mapping[str, str], events: Path, timeout: float) -> Run:
    """Run a command that executes ansible-playbook, with exactly this environment."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        finally:
            end_group(process.pid)
    lines = events.read_text().splitlines() if events.is_file() else []
    run = Run(process.returncode, output, [json.loads(line) for line in lines])
    keep_log(command, run)
    return run


def environment(events: Path, checkout: Path = ROOT) -> dict[str, str]:
    return {
        "ANSIBLE_CALLBACK_PLUGINS": str(checkout / "tests" / "support" / "callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "gpulab_events",
        "ANSIBLE_NOCOLOR": "1",
        # The default callback prints everything, which helps to examine a failed test.
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        "GPULAB_EVENTS": str(events),
    }


def end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def keep_log(command: list[str], run: Run) -> None:
    """Append the run to .cache/plays.log, to examine a failed test."""
    path = ROOT / ".cache" / "plays.log"
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as log:
        log.write(f"$ {' '.join(command)}\n{run.output}\nexit status {run.status}\n\n")
