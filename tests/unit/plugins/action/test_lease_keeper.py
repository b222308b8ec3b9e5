# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of ansible-playbook that hold the lease: it is renewed while they run, and free when they have ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
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
- hosts: localhost
  gather_facts: false
  tasks:
"""
HOLD = """
    - gpulab.kubernetes.cluster_lease: {{state: {state}, holder: alice@laptop, root: "{root}", duration: {duration}}}
"""
WAIT = """
    - ansible.builtin.wait_for: {{path: "{path}", timeout: 30, sleep: 1}}
"""


class Runs:
    """The API keeps the lease, as a real one does."""

    def __init__(self, folder: Path, api: ApiServer, authority: Authority) -> None:
        self.folder, self.api, self.version = folder, api, 1
        api.after_write = self._keep
        (folder / "etc/kubernetes").mkdir(parents=True)
        (folder / "etc/kubernetes/admin.conf").write_text(authority.kubeconfig(api.url))

    def start(self, *steps: str, duration: int = 3, name: str = "one") -> subprocess.Popen[str]:
        """``steps``: held, released, or a file that is waited for."""
        tasks = [
            HOLD.format(state=step, root=self.folder, duration=duration)
            if step in ("held", "released")
            else WAIT.format(path=self.folder / step)
            for step in steps
        ]
        playbook = self.folder / f"{name}.yml"
        playbook.write_text(HEAD + "".join(tasks))
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        }
        command = [str(Path(sys.executable).parent / "ansible-playbook"), str(playbook)]
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

    @property
    def lease(self) -> dict[str, Any] | None:
        return self.api.answers[LEASE][1] if LEASE in self.api.answers else None

    @property
    def renewals(self) -> int:
        return [method for method, _path, _body in self.api.written].count("PUT")

    @property
    def keepers(self) -> list[int]:
        states = [json.loads(path.read_text()) for path in self.folder.glob("tmp/*/lease-????????????????")]
        return [state["process"] for state in states if "process" in state]

    def taken_by(self, holder: str) -> None:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 900, "acquireTime": now, "renewTime": now}
        self.api.answers[LEASE] = (200, {"metadata": {"resourceVersion": "70"}, "spec": spec})

    def _keep(self, method: str, path: str, body: Any) -> None:
        if method == "DELETE":
            self.api.answers.pop(LEASE, None)
        else:
            self.version += 1
            metadata = {**body["metadata"], "resourceVersion": str(self.version)}
            self.api.answers[LEASE] = (200, {**body, "metadata": metadata})


def wait(condition: Callable[[], object], limit: float = 20) -> None:
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


def test_it_is_renewed_until_it_is_released(runs: Runs) -> None:
    process = runs.start("held", "go", "held", "released", "end")
    wait(lambda: runs.renewals >= 3)
    [keeper] = runs.keepers
    runs.go("go")
    wait(lambda: runs.lease is None)
    # What is released stays released, and the process that renewed it is gone.
    renewals = runs.renewals
    assert not lives(keeper)
    time.sleep(1)
    runs.go("end")
    text = said(process)
    assert (process.returncode, runs.renewals, runs.lease) == (0, renewals, None), text
    assert "WARNING" not in text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, 0])
def test_it_is_free_when_the_run_ends_without_releasing_it(runs: Runs, number: int) -> None:
    process = runs.start("held", "go")
    wait(lambda: runs.keepers and runs.lease)
    if number:
        process.send_signal(number)
    else:
        runs.go("go")
    # Nothing of the keeper keeps the output open.
    said(process)
    wait(lambda: runs.lease is None)
    assert runs.api.written[-1][0] == "DELETE"


def test_two_runs_of_one_user_exclude_each_other(runs: Runs) -> None:
    first = runs.start("held", "go", duration=60)
    wait(lambda: runs.lease)
    second = runs.start("held", name="two")
    text = " ".join(said(second).split())
    assert second.returncode == 2 and "alice@laptop (run " in text and "has held it since" in text
    assert runs.lease
    runs.go("go")
    said(first)


def test_a_run_whose_lease_was_taken_stops_at_its_next_step(runs: Runs) -> None:
    process = runs.start("held", "go", "held", "end")
    wait(lambda: runs.keepers)
    runs.taken_by("bob@desk")
    renewals = runs.renewals
    time.sleep(2)
    runs.go("go")
    text = " ".join(said(process).split())
    assert process.returncode == 2 and "could not be renewed, and another run has taken it" in text
    assert "bob@desk has held it since" in text
    assert runs.renewals == renewals and runs.lease and runs.lease["spec"]["holderIdentity"] == "bob@desk"


def test_a_keeper_that_was_killed_is_replaced(runs: Runs) -> None:
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
