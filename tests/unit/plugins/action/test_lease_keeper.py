# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of ansible-playbook that hold the lease: it is renewed while they run, and free afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._keeper.keeper import lives
from apiserver import ApiServer, Authority
from support.hosts import ROOT

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/gpulab-kubernetes"
HEAD = """
- hosts: {hosts}
  strategy: {strategy}
  gather_facts: false
  tasks:
"""
HOLD = """
    - gpulab.kubernetes.cluster_lease: {{state: {state}, holder: alice@laptop, root: "{root}", duration: {duration}}}
      {more}
"""
# Simulates a host that hangs while the file exists.
PYTHON = """#!/bin/sh
[ ! -e {hang} ] || exec sleep 300
exec {python} "$@"
"""
WAIT = """
    - ansible.builtin.shell: touch {path}.awaited && timeout 30 sh -c "until [ -e {path} ]; do sleep 0.2; done"
"""


class Runs:
    """An API that stores the lease, like a real one."""

    def __init__(self, folder: Path, api: ApiServer, authority: Authority) -> None:
        self.folder, self.api, self.version = folder, api, 1
        api.after_write = self._keep
        (folder / "etc/kubernetes").mkdir(parents=True)
        (folder / "etc/kubernetes/admin.conf").write_text(authority.kubeconfig(api.url))

    def start(
        self,
        *steps: str,
        duration: int = 3,
        name: str = "one",
        hosts: str = "localhost",
        strategy: str = "linear",
        more: str = "",
        **environment: str,
    ) -> subprocess.Popen[str]:
        """Run a play with these steps: held, released, or a file to wait for. ``more`` is for the lease tasks."""
        tasks = [
            HOLD.format(state=step, root=self.folder, duration=duration, more=more)
            if step in ("held", "released")
            else WAIT.format(path=self.folder / step)
            for step in steps
        ]
        playbook = self.folder / f"{name}.yml"
        playbook.write_text(HEAD.format(hosts=hosts, strategy=strategy) + "".join(tasks))
        inventory = self.folder / "hosts.ini"
        inventory.write_text("\n".join(f"{host} ansible_connection=local" for host in hosts.split(",")))
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            **environment,
        }
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory), str(playbook)]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def go(self, step: str) -> None:
        (self.folder / step).touch()

    def awaits(self, step: str) -> bool:
        return (self.folder / f"{step}.awaited").exists()

    @property
    def lease(self) -> dict[str, Any] | None:
        return self.api.answers[LEASE][1] if LEASE in self.api.answers else None

    @property
    def renewals(self) -> int:
        return [method for method, _path, _body in self.api.written].count("PUT")

    @property
    def states(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in self.folder.glob("tmp/*/lease-????????????????")]

    @property
    def keepers(self) -> list[int]:
        return [state["process"] for state in self.states if "process" in state]

    def taken_by(self, holder: str, duration: int = 900) -> None:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": duration, "acquireTime": now, "renewTime": now}
        self.api.answers[LEASE] = (200, {"metadata": {"resourceVersion": "70"}, "spec": spec})

    def _keep(self, method: str, path: str, body: Any) -> None:
        if method == "DELETE":
            self.api.answers.pop(LEASE, None)
        else:
            self.version += 1
            metadata = {**body["metadata"], "resourceVersion": str(self.version)}
            self.api.answers[LEASE] = (200, {**body, "metadata": metadata})


def wait(condition: Callable[[], object], limit: float = 60) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def runs(tmp_path: Path, api: ApiServer, authority: Authority) -> Runs:
    return Runs(tmp_path, api, authority)


def said(process: subprocess.Popen[str]) -> str:
    text, _nothing = process.communicate(timeout=60)
    return text


def test_the_lease_is_renewed_until_it_is_released(runs: Runs) -> None:
    process = runs.start("held", "go", "held", "released", "end")
    wait(lambda: runs.renewals >= 3)
    [keeper] = runs.keepers
    runs.go("go")
    wait(lambda: runs.lease is None)
    # It stays released, and the process that renewed it has ended.
    renewals = runs.renewals
    assert not lives(keeper)
    time.sleep(1)
    runs.go("end")
    text = said(process)
    assert (process.returncode, runs.renewals, runs.lease) == (0, renewals, None), text
    assert "WARNING" not in text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, 0])
def test_the_lease_is_free_if_a_run_ends_without_releasing_it(runs: Runs, number: int) -> None:
    process = runs.start("held", "go")
    # ansible-core never ends if SIGINT comes while the result of a task is on its way.
    wait(lambda: runs.awaits("go") and runs.lease)
    if number:
        process.send_signal(number)
    else:
        runs.go("go")
    # The keeper does not keep the output open.
    said(process)
    wait(lambda: runs.lease is None)
    assert runs.api.written[-1][0] == "DELETE"


@pytest.mark.parametrize("duration", [3, 18])
def test_two_runs_of_one_user_exclude_each_other(runs: Runs, duration: int) -> None:
    """The second one fails immediately, or waits until the first one renews the lease."""
    first = runs.start("held", "go", duration=18)
    wait(lambda: runs.lease)
    second = runs.start("held", name="two", duration=duration)
    text = " ".join(said(second).split())
    assert second.returncode == 2 and "alice@laptop (run " in text and "has held it since" in text
    assert runs.lease
    runs.go("go")
    said(first)


def test_a_run_waits_for_the_lease_of_one_that_has_ended_without_a_release(runs: Runs) -> None:
    runs.taken_by("bob@desk", duration=6)
    process = runs.start("held", "go", duration=6)
    wait(lambda: runs.lease and "alice@laptop" in runs.lease["spec"]["holderIdentity"])
    # The process that renews the lease was started, too.
    wait(lambda: runs.renewals >= 2)
    runs.go("go")
    text = " ".join(said(process).split())
    assert process.returncode == 0 and "Another run holds the lease of the cluster" in text


def test_a_run_whose_lease_was_taken_stops_at_its_next_step(runs: Runs) -> None:
    process = runs.start("held", "go", "held", "end")
    wait(lambda: runs.keepers)
    runs.taken_by("bob@desk")
    renewals = runs.renewals
    wait(lambda: any("lost" in state for state in runs.states))
    runs.go("go")
    text = " ".join(said(process).split())
    assert process.returncode == 2 and "could not be renewed, and another run has taken it" in text
    assert "bob@desk has held it since" in text
    assert runs.renewals == renewals and runs.lease and runs.lease["spec"]["holderIdentity"] == "bob@desk"


def test_a_killed_keeper_is_replaced(runs: Runs) -> None:
    process = runs.start("held", "go", "held", "end")
    wait(lambda: runs.keepers)
    [keeper] = runs.keepers
    os.kill(keeper, signal.SIGKILL)
    runs.go("go")
    wait(lambda: runs.keepers and runs.keepers != [keeper])
    renewals = runs.renewals
    wait(lambda: runs.renewals > renewals)
    runs.go("end")
    text = said(process)
    assert process.returncode == 0 and "The process that renewed the lease of the cluster has ended" in text


def test_the_lease_is_renewed_if_modules_are_copied_to_the_host(runs: Runs) -> None:
    copied = runs.folder / "copied"
    process = runs.start("held", "go", ANSIBLE_PIPELINING="0", ANSIBLE_REMOTE_TEMP=str(copied))
    wait(lambda: runs.renewals >= 3)
    runs.go("go")
    text = said(process)
    wait(lambda: runs.lease is None)
    assert process.returncode == 0, text
    wait(lambda: list(copied.iterdir()) == [])


def test_the_lease_is_renewed_again_after_a_host_has_hung(runs: Runs) -> None:
    python, hang = runs.folder / "python", runs.folder / "hang"
    python.write_text(PYTHON.format(hang=hang, python=sys.executable))
    python.chmod(0o755)
    process = runs.start("held", "go", ANSIBLE_PYTHON_INTERPRETER=str(python))
    wait(lambda: runs.renewals)
    hang.touch()
    time.sleep(1)
    hang.unlink()
    renewals = runs.renewals
    wait(lambda: runs.renewals > renewals + 1)
    runs.go("go")
    said(process)
    wait(lambda: runs.lease is None)


def test_each_host_has_its_own_lease(runs: Runs) -> None:
    process = runs.start("held", "go", hosts="one,two")
    wait(lambda: len(runs.keepers) == 2)
    runs.go("go")
    said(process)


def test_hosts_that_take_the_same_lease_simultaneously_start_one_keeper(runs: Runs) -> None:
    process = runs.start(
        "held", "go", "held", hosts="one,two,three", strategy="free", more="delegate_to: localhost", duration=60
    )
    wait(lambda: runs.keepers)
    time.sleep(2)
    assert [method for method, _path, _body in runs.api.written] == ["POST"]
    runs.go("go")
    text = said(process)
    assert process.returncode == 0, text


def test_a_terminated_keeper_releases_the_lease(runs: Runs) -> None:
    # Ansible creates a socket there, whose path must be short.
    with tempfile.TemporaryDirectory() as own:
        process = runs.start("held", "go", TMPDIR=own)
        wait(lambda: runs.keepers and list(Path(own).glob("gpulab-lease-*")))
        [keeper] = runs.keepers
        os.kill(keeper, signal.SIGTERM)
        wait(lambda: runs.lease is None)
        wait(lambda: not list(Path(own).glob("gpulab-lease-*")))
        runs.go("go")
        said(process)
