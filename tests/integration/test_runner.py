"""examples/provision.py on bare nodes: canceled midway, resumed, and a second run that changes nothing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from support.cluster import Cluster
from support.hosts import ROOT
from support.lab import Lab, running

SPEC = Path(__file__).parent / "specs" / "one-worker.yml"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running("runner", SPEC) as started:
        yield started


def provision(lab: Lab, *arguments: str) -> pexpect.spawn:
    command = ["examples/provision.py", "-i", str(lab.path), *arguments]
    settings = {"cwd": ROOT, "env": {**os.environ, "TERM": "xterm"}, "dimensions": (40, 160)}
    return pexpect.spawn(sys.executable, command, encoding="utf-8", timeout=900, **settings)


def end_of(child: pexpect.spawn) -> tuple[int | None, str]:
    """Return the exit status and the output after the last awaited text."""
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus, child.before


def report(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((lab.directory / "gpulab-runs" / "report.json").read_text())
    return found


def children_of(lab: Lab) -> list[str]:
    """Return the processes that still work on this lab's inventory, except SSH, whose shared connections end soon."""
    found = [path / "cmdline" for path in Path("/proc").iterdir() if path.name.isdigit()]
    commands = [path.read_bytes().replace(b"\0", b" ").decode(errors="replace") for path in found if path.is_file()]
    return [command for command in commands if str(lab.path) in command and "ansible-playbook" in command]


def test_ctrl_c_in_the_middle_leaves_no_process_and_names_the_task(lab: Lab) -> None:
    child = provision(lab)
    child.expect("Prepare the hosts")
    child.expect("changed: Configure and install containerd")
    child.sendintr()
    child.expect("Where the time went")
    status, shown = end_of(child)
    assert (status, report(lab)["status"]) == (130, "canceled"), shown
    assert report(lab)["phase"] == "Prepare the hosts"
    assert children_of(lab) == []


def test_the_next_run_resumes_and_completes(lab: Lab) -> None:
    done_before = report(lab)["phases"]
    child = provision(lab)
    child.expect("The last run ended .canceled. in .Prepare the hosts.. Finished work is kept.")
    child.expect("GPUs verified")
    status, shown = end_of(child)
    assert status == 0, shown
    titles = [phase["title"] for phase in report(lab)["phases"]]
    assert titles[: len(done_before)] == [phase["title"] for phase in done_before]
    of_the_cluster = ["Flannel", "Node pools", "Nvidia device plugin", "Gpu sharing"]
    assert titles[-6:] == [*of_the_cluster, "Acceptance", "Report"]
    assert "Set the kernel up" not in shown, "that was done in the first run"
    assert Cluster.of(lab.inventory()).allocatable_gpus() == lab.inventory().expected_gpus()


def test_another_run_changes_nothing(lab: Lab) -> None:
    status, shown = end_of(provision(lab))
    assert status == 0, shown
    hosts = report(lab)["hosts"]
    assert {name: host["changed"] for name, host in hosts.items()} == dict.fromkeys(hosts, 0)
    assert {"cp1", "gpu1"} <= set(hosts)
    assert "changed: " not in shown


def test_an_unreachable_host_has_its_own_exit_status(lab: Lab) -> None:
    status, shown = end_of(provision(lab, "-e", "ansible_port=9", "--playbook", "gpulab.kubernetes.verify"))
    assert status == 4, shown
    assert "UNREACHABLE" in shown
