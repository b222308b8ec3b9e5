"""An API server outage of 20 s, and simultaneous runs: nothing that works is undone."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster
from support.hosts import Host, Inventory
from support.lab import Lab, running
from support.play import Run, play

SPEC = Path(__file__).parent / "specs" / "driver.yml"
OLD, NEW = "580.178.04", "595.91.07"
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
ASIDE = "/etc/kubernetes/kube-apiserver.aside"
AWAY = 20
SEED = int(os.environ.get("GPULAB_PATIENCE_SEED") or 1)
UPGRADE = "playbooks/upgrade_driver.yml"
VERIFY = "playbooks/verify.yml"
LEASE = ("--namespace", "kube-system", "lease", "gpulab-kubernetes", "--ignore-not-found")


@dataclass(frozen=True)
class Site:
    lab: Lab
    inventory: Inventory
    cluster: Cluster

    def play(self, playbook: str, *arguments: str) -> Run:
        return play(self.lab.path, *arguments, playbook=playbook)

    def versions(self) -> set[str]:
        query = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
        return {line.strip() for host in self.inventory.workers for line in host.run(query).splitlines()}

    def expect_in_use(self) -> None:
        """Assert that all nodes are released, every GPU is offered, and no one holds the lease."""
        for node in self.cluster.get("nodes")["items"]:
            name, known = node["metadata"]["name"], node["metadata"].get("annotations", {})
            assert not node["spec"].get("unschedulable"), f"{name} stays cordoned"
            assert not {"gpulab.io/driver-upgrade", "gpulab.io/disruption"} & set(known), f"{name}: {known}"
        assert self.cluster.allocatable_gpus() == self.inventory.expected_gpus()
        wait(lambda: not self.cluster.kubectl("get", *LEASE).strip())


@dataclass
class Outage:
    """Stop a host's API server after a while, and start it again 20 s after it is down."""

    host: Host
    after: float
    began: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._happen)

    def _happen(self) -> None:
        time.sleep(self.after)
        self.began = True
        self.host.run(f"mv {MANIFEST} {ASIDE}")
        try:
            wait(lambda: self.host.attempt("pgrep -x kube-apiserver").returncode != 0)
            time.sleep(AWAY)
        finally:
            self.host.run(f"mv {ASIDE} {MANIFEST}")

    def __enter__(self) -> Outage:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._thread.join()
        ready = "kubectl --kubeconfig /etc/kubernetes/admin.conf get --raw /readyz"
        wait(lambda: self.host.attempt(ready).returncode == 0)


def wait(condition: Callable[[], object], limit: float = 120) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def moment(name: str, duration: float) -> float:
    """Return the start of the outage within a run, in seconds."""
    return random.Random(f"{SEED} {name}").uniform(0.1, 0.9) * duration


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running("driver", SPEC) as lab:
        play(lab.path).expect_success()
        inventory = lab.inventory()
        yield Site(lab, inventory, Cluster.of(inventory))


@contextmanager
def in_background(action: Callable[[], Run]) -> Iterator[list[Run]]:
    """Run an action during the block; its Run is in the list afterwards."""
    runs: list[Run] = []
    thread = threading.Thread(target=lambda: runs.append(action()))
    thread.start()
    try:
        yield runs
    finally:
        thread.join()


def holder(site: Site) -> str:
    text = site.cluster.kubectl("get", *LEASE, "--output", "json")
    found: str = json.loads(text)["spec"]["holderIdentity"] if text.strip() else ""
    return found


# Durations of runs without an outage.
@pytest.mark.parametrize(
    ("playbook", "duration", "arguments"),
    [
        (VERIFY, 20, ()),
        (
            "playbooks/share_gpus.yml",
            30,
            ("-e", '{"cluster_gpu_sharing": {"mode": "time_slicing", "replicas": 2}}'),
        ),
        ("playbooks/share_gpus.yml", 30, ("-e", '{"cluster_gpu_sharing": {"mode": "exclusive"}}')),
        ("playbooks/isolate_gpu.yml", 10, ()),
        ("site.yml", 25, ()),
    ],
)
def test_a_run_waits_for_the_api_server(site: Site, playbook: str, duration: float, arguments: tuple[str, ...]) -> None:
    control_plane = site.inventory.control_plane
    # Gives site.yml something to change.
    site.inventory.workers[0].run("rm -f /etc/sysctl.d/95-gpulab.conf")
    with Outage(control_plane, moment(playbook + "".join(arguments), duration)) as outage:
        run = site.play(playbook, *arguments)
    assert outage.began
    run.expect_success()
    if "time_slicing" not in "".join(arguments):
        site.expect_in_use()


def test_an_upgrade_waits_for_the_api_server_and_does_not_roll_back(site: Site) -> None:
    with Outage(site.inventory.control_plane, moment(UPGRADE, 60)):
        run = site.play(UPGRADE, "-e", f"nvidia_driver_version={NEW}")
    if run.status:
        # It stops without a rollback, and the next run completes it.
        assert "rolled back" not in run.output
        site.play(UPGRADE, "-e", f"nvidia_driver_version={NEW}").expect_success()
    assert site.versions() == {NEW}
    site.expect_in_use()


def test_a_verification_during_an_upgrade_is_refused_without_side_effects(site: Site) -> None:
    with in_background(lambda: site.play(UPGRADE, "-e", f"nvidia_driver_version={OLD}")) as upgrades:
        wait(lambda: holder(site))
        refused = 0
        while not upgrades:
            run = site.play(VERIFY)
            refused += run.status != 0
            assert run.status == 0 or "has held it since" in run.failures(), run.failures()
    assert refused
    upgrades[0].expect_success()
    assert site.versions() == {OLD}
    site.expect_in_use()


def test_the_second_of_two_runs_of_one_user_is_refused(site: Site) -> None:
    with in_background(lambda: site.play(VERIFY)) as first:
        wait(lambda: holder(site))
        second = site.play("playbooks/isolate_gpu.yml")
    first[0].expect_success()
    assert second.status != 0 and "has held it since" in second.failures() and "(run " in second.failures()
    site.expect_in_use()


def keepers() -> list[int]:
    """Return the process IDs of the lease keepers that runs of this user have recorded."""
    notes = Path.home().glob(".ansible/tmp/ansible-local-*/lease-????????????????")
    noted = [json.loads(note.read_text()).get("process", 0) for note in notes]
    # The process ID recorded by a killed run may belong to another process by now.
    commands = {process: Path(f"/proc/{process}/cmdline") for process in noted if process}
    return [process for process, path in commands.items() if path.exists() and b"ansible" in path.read_bytes()]


def test_a_run_whose_lease_keeper_was_killed_continues(site: Site) -> None:
    def kill() -> None:
        wait(keepers)
        for process in keepers():
            os.kill(process, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    run = site.play(VERIFY)
    killer.join()
    run.expect_success()
    # The lease was no longer renewed, but is released.
    site.expect_in_use()


def test_after_the_outages_a_run_changes_nothing(site: Site) -> None:
    def changed() -> dict[str, Any]:
        return {f"{host}: {task}": True for host, task in site.play("site.yml").expect_success().changed()}

    changed()
    assert not changed()
