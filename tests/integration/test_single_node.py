"""A single machine in both groups of the inventory."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.cluster import Cluster
from support.hosts import ROOT
from support.lab import Lab, running
from support.play import play

SPEC = ROOT / "lab" / "specs" / "single.yml"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running("single-node", SPEC) as started:
        play(started.path).expect_success()
        yield started


def test_pods_run_on_the_single_node_and_reach_every_gpu(lab: Lab) -> None:
    inventory = lab.inventory()
    cluster = Cluster.of(inventory)
    (node,) = cluster.get("nodes")["items"]
    assert node["spec"].get("taints", []) == []
    assert cluster.ready_nodes() == set(inventory.hosts)
    assert cluster.allocatable_gpus() == inventory.expected_gpus()
    assert json.loads(lab.report.read_text())["totals"]["proven"] == sum(inventory.expected_gpus().values())


def test_a_second_run_changes_nothing(lab: Lab) -> None:
    play(lab.path).expect_unchanged()
