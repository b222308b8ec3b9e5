"""A worker added to the inventory joins while other hosts are only read. A worker that can't join gets the reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster
from support.hosts import ROOT, Inventory
from support.lab import Lab, running
from support.play import Run, play
from support.state import services

NEW = "gpu2"
BOOTSTRAP_TOKEN = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running("add-worker", ROOT / "lab" / "specs" / "default.yml") as started:
        yield started


@pytest.fixture(scope="module")
def smaller(lab: Lab) -> Path:
    """The inventory without the new worker."""
    path = lab.directory / "smaller.ini"
    kept = [line for line in lab.path.read_text().splitlines() if not re.match(rf"{NEW}\b", line)]
    path.write_text("\n".join(kept) + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def before(smaller: Path) -> dict[str, str]:
    """Start times of the services on the first hosts, before the new worker is added."""
    play(smaller).expect_success()
    return services(Inventory.read(smaller))


@pytest.fixture(scope="module")
def added(lab: Lab, before: dict[str, str]) -> Run:
    assert before
    return play(lab.path, "-vvv").expect_success()


def test_the_new_worker_joins_and_its_gpus_are_verified(lab: Lab, added: Run) -> None:
    inventory = lab.inventory()
    cluster = Cluster.of(inventory)
    assert cluster.ready_nodes() == set(inventory.hosts)
    assert cluster.allocatable_gpus() == inventory.expected_gpus()
    report = json.loads(lab.report.read_text())
    assert report["hosts"][NEW]["gpus"]["proven"] == inventory.expected_gpus()[NEW]


def test_the_other_nodes_are_only_read(smaller: Path, before: dict[str, str], added: Run) -> None:
    changed_elsewhere = {
        (e["host"], e["task"])
        for e in added.results("changed")
        if e["host"] != NEW and not (e["delegated_to"] or "").startswith("localhost")
    }
    # The join token is created on the control plane, and only the verification may change objects in the API.
    assert {task for _, task in changed_elsewhere if "token" not in task.lower()} == set()
    assert services(Inventory.read(smaller)) == before


def test_no_secret_is_in_the_log_of_the_join(added: Run) -> None:
    assert "TASK" in added.output
    assert BOOTSTRAP_TOKEN.findall(added.output) == []
    assert "PRIVATE KEY" not in added.output
    assert "client-key-data" not in added.output


def test_a_run_limited_to_the_new_worker_changes_nothing(lab: Lab, added: Run) -> None:
    run = play(lab.path, "--limit", NEW).expect_unchanged()
    assert added.status == 0
    assert NEW in run.stats()


def test_a_worker_whose_node_was_deleted_gets_an_error_with_the_remedy(lab: Lab, added: Run) -> None:
    assert added.status == 0
    inventory = lab.inventory()
    Cluster.of(inventory).kubectl("delete", "node", NEW)
    kept = inventory.hosts[NEW].run("sha256sum /etc/kubernetes/kubelet.conf /var/lib/kubelet/config.yaml")
    run = play(lab.path)
    assert run.status != 0
    assert NEW in run.failures()
    assert "kubeadm reset" in run.failures()
    assert inventory.hosts[NEW].run("sha256sum /etc/kubernetes/kubelet.conf /var/lib/kubelet/config.yaml") == kept


def test_a_worker_of_another_cluster_gets_an_error_with_the_remedy(lab: Lab, added: Run) -> None:
    assert added.status == 0
    host = lab.inventory().hosts[NEW]
    host.run(
        "cd /etc/kubernetes/pki && openssl req -x509 -newkey rsa:2048 -nodes -keyout /dev/null -out ca.crt "
        "-subj /CN=another -days 1 2>/dev/null"
    )
    run = play(lab.path)
    assert run.status != 0
    assert NEW in run.failures()
    assert "another cluster" in run.failures()
