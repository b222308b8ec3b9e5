"""A host's GPUs shared by time-slicing, and whole again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster
from support.hosts import Inventory
from support.play import Run, play

REPLICAS = 2
SHARED = "nvidia.com/gpu.shared"


def share(inventory: Inventory, node: str, declared: dict[str, Any]) -> Run:
    """Run the playbook for one host, with a declaration of its own."""
    # The report goes beside the inventory that names the host last.
    further = inventory.path.with_name("sharing.yml")
    further.write_text(json.dumps({"all": {"hosts": {node: {"cluster_gpu_sharing": declared}}}}))
    arguments = ("-i", str(further), "--limit", node)
    return play(inventory.path, *arguments, playbook="playbooks/share_gpus.yml").expect_success()


@pytest.fixture(scope="module")
def shared(inventory: Inventory) -> Iterator[tuple[str, int]]:
    """A host that shares its GPUs, and how many it has."""
    node, count = sorted(inventory.expected_gpus().items())[0]
    declared = {"mode": "time_slicing", "replicas": REPLICAS, "rename": True, "refuse_more_than_one": True}
    share(inventory, node, declared)
    yield node, count
    share(inventory, node, {"mode": "exclusive"})


def test_each_gpu_is_offered_to_several_pods_and_proven_by_them(
    cluster: Cluster, ephemeral: Path, shared: tuple[str, int]
) -> None:
    node, count = shared
    status = cluster.get("node", node)
    assert status["status"]["allocatable"][SHARED] == str(count * REPLICAS)
    assert status["status"]["allocatable"].get("nvidia.com/gpu", "0") == "0"
    assert status["metadata"]["labels"]["nvidia.com/device-plugin.config"].startswith("time-slicing-2")
    found = json.loads((ephemeral / "gpulab-report.json").read_text())["hosts"][node]
    assert found["problems"] == []
    assert (found["gpus"]["proven"], found["gpus"]["pods"]) == (count, count * REPLICAS)
