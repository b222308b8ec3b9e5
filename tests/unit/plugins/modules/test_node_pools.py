# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeNode

TAINT = {"key": "nvidia.com/gpu", "value": "present"}
SET = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


class Cluster:
    def __init__(self, run: Callable[..., dict[str, Any]], kubeconfig: Path, state: FakeCluster) -> None:
        self._run = run
        self._kubeconfig = str(kubeconfig)
        self.state = state

    def sort(self, *nodes: dict[str, Any], check: bool = False) -> dict[str, Any]:
        return self._run("node_pools", {"kubeconfig": self._kubeconfig, "nodes": list(nodes)}, check=check)


@pytest.fixture
def cluster(run_module: Callable[..., dict[str, Any]], tmp_path: Path) -> Iterator[Cluster]:
    state = FakeCluster(FakeNode("cp1"), FakeNode("gpu1", ["GPU-0"]))
    with ExitStack() as stack:
        yield Cluster(run_module, stack.enter_context(state.serve(tmp_path)), state)


def test_labels_and_taints_are_added_and_removed(cluster: Cluster) -> None:
    pool = {"name": "gpu1", "labels": {"gpulab.io/pool": "a"}, "taints": [TAINT]}
    node = cluster.state.nodes["gpu1"]
    predicted = cluster.sort(pool, check=True)
    assert predicted["changed"]
    assert node.taints == []
    result = cluster.sort(pool)
    assert result["changes"] == predicted["changes"]
    assert result["changes"]["gpu1"]["after"] == {
        "labels": {"gpulab.io/pool": "a"},
        "taints": ["nvidia.com/gpu=present:NoSchedule"],
    }
    assert node.taints == [SET]
    assert node.body()["metadata"]["labels"]["nvidia.com/gpu.count"] == "1"
    assert not cluster.sort(pool)["changed"]
    assert cluster.sort({"name": "gpu1"})["changed"]
    assert node.taints == []
    assert "gpulab.io/pool" not in node.body()["metadata"]["labels"]
    assert not cluster.sort({"name": "gpu1"})["changed"]


def test_labels_that_a_record_claims_wrongly_stay_and_are_a_warning(cluster: Cluster) -> None:
    node = cluster.state.nodes["gpu1"]
    compromised = {"key": "compromised", "effect": "NoExecute"}
    node.taints = [compromised]
    record = {"labels": {}, "taints": [compromised]}
    node.metadata = {"annotations": {"gpulab.io/node-pool": json.dumps(record)}}
    result = cluster.sort({"name": "gpu1"})
    assert node.taints == [compromised]
    assert "annotation gpulab.io/node-pool of node gpu1 claims the taint 'compromised:NoExecute'" in str(result)


def test_a_conflict_with_a_simultaneous_change_of_the_node_is_retried(cluster: Cluster) -> None:
    cluster.state.nodes["gpu1"].conflicts = 2
    assert cluster.sort({"name": "gpu1", "taints": [TAINT]})["changed"]
    assert cluster.state.nodes["gpu1"].taints == [SET]
    cluster.state.nodes["gpu1"].conflicts = 9
    result = cluster.sort({"name": "gpu1"})
    assert result["failed"]
    assert "the object has been modified" in result["msg"]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([{"name": "gone"}], ["gone: there is no such node"]),
        ([{"name": "gpu1", "labels": {"nvidia.com/gpu.count": "9"}}], ["gpu1: ", "feature discovery"]),
        ([{"name": "gpu1", "taints": [TAINT]}, {"name": "cp1", "taints": [TAINT]}], ["DNS", "leave the control plane"]),
        (
            [{"name": "gpu1", "taints": [TAINT]}, {"name": "cp1", "labels": {"a": "b c"}}],
            ["cp1: ", "nothing was changed"],
        ),
    ],
)
def test_invalid_declarations_are_reported_before_anything_changes(
    cluster: Cluster, nodes: list[dict[str, Any]], words: list[str]
) -> None:
    result = cluster.sort(*nodes)
    assert result["failed"]
    assert all(word in result["msg"] for word in words), result["msg"]
    assert all(node.taints == [] for node in cluster.state.nodes.values())


def test_changes_of_a_node_that_does_not_exist_yet_are_predicted(cluster: Cluster) -> None:
    result = cluster.sort({"name": "new", "labels": {"gpulab.io/pool": "a"}}, check=True)
    assert not result["failed"]
    assert list(result["changes"]) == ["new"]
