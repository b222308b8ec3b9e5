"""What a person relies on in the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster, gpu_pod
from support.hosts import Inventory


@pytest.fixture
def roomy(inventory: Inventory) -> str:
    """Return a node with at least two GPUs."""
    return next(name for name, count in sorted(inventory.expected_gpus().items()) if count >= 2)


@pytest.fixture
def two_gpus(cluster: Cluster, roomy: str) -> Iterator[str]:
    cluster.start_gpu_pod("verify-two", 2, roomy)
    yield "verify-two"
    cluster.delete_pod("verify-two")


@pytest.fixture
def greedy(cluster: Cluster, roomy: str) -> Iterator[str]:
    cluster.apply(gpu_pod("verify-greedy", 0, roomy))
    cluster.kubectl("wait", "pod/verify-greedy", "--for=condition=Ready", "--timeout=120s")
    yield "verify-greedy"
    cluster.delete_pod("verify-greedy")


def test_every_node_is_ready(cluster: Cluster, inventory: Inventory) -> None:
    assert cluster.ready_nodes() == set(inventory.hosts)


def test_every_gpu_is_allocatable(cluster: Cluster, inventory: Inventory) -> None:
    assert cluster.allocatable_gpus() == inventory.expected_gpus()


def test_a_pod_that_asks_for_two_gpus_sees_exactly_two(cluster: Cluster, two_gpus: str) -> None:
    listed = cluster.kubectl("exec", two_gpus, "--", "nvidia-smi", "-L").splitlines()
    assert len(listed) == 2
    assert len({line.rpartition("UUID: ")[2] for line in listed}) == 2
    devices = cluster.kubectl("exec", two_gpus, "--", "/bin/sh", "-c", "echo /dev/nvidia[0-9]*").split()
    assert len(devices) == 2


def test_a_pod_that_merely_wants_all_gpus_sees_none(cluster: Cluster, greedy: str) -> None:
    assert cluster.kubectl("exec", greedy, "--", "/bin/sh", "-c", "echo /dev/nvidia*").strip() == "/dev/nvidia*"


def test_nodes_are_labelled_with_their_gpus(cluster: Cluster, inventory: Inventory) -> None:
    labels = {n["metadata"]["name"]: n["metadata"]["labels"] for n in cluster.get("nodes")["items"]}
    for name, count in inventory.expected_gpus().items():
        assert labels[name]["nvidia.com/gpu.count"] == str(count)
        assert labels[name]["nvidia.com/gpu.product"]
    for name in set(inventory.hosts) - set(inventory.expected_gpus()):
        assert "nvidia.com/gpu.count" not in labels[name]


def test_the_report_says_that_all_are_proven_and_that_the_second_run_kept_it(
    inventory: Inventory, ephemeral: Path
) -> None:
    report = json.loads((ephemeral / "gpulab-report.json").read_text())
    expected = sum(inventory.expected_gpus().values())
    assert report["totals"]["gpus"] == report["totals"]["proven"] == expected
    assert report["kept"] is True
    assert report["problems"] == []
    for name, count in inventory.expected_gpus().items():
        gpus = report["hosts"][name]["gpus"]
        assert [gpus[k] for k in ("nvidia_smi", "pci", "capacity", "allocatable", "proven")] == [count] * 5


def test_no_pods_of_the_proof_are_left(cluster: Cluster) -> None:
    left = [p["metadata"]["name"] for p in cluster.get("pods", "--all-namespaces")["items"] if holds_gpu(p)]
    assert left == []


def holds_gpu(pod: dict[str, dict[str, list[dict[str, dict[str, dict[str, str]]]]]]) -> bool:
    return any("nvidia.com/gpu" in c.get("resources", {}).get("limits", {}) for c in pod["spec"]["containers"])
