# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeNode

CONFIGURATION, CHANGING = "nvidia.com/device-plugin.config", "gpulab.io/gpu-sharing"
MIG: dict[str, Any] = {"configuration": "mig-mixed", "amounts": {"nvidia.com/mig-1g.5gb": 14}}


class Cluster:
    def __init__(self, run: Callable[..., dict[str, Any]], kubeconfig: Path, state: FakeCluster) -> None:
        self._run = run
        self._kubeconfig = kubeconfig
        self.state = state
        self._before: dict[str, Any] = {}

    def share(self, check: bool = False, **more: Any) -> dict[str, Any]:
        args = {"kubeconfig": str(self._kubeconfig), "node": "gpu1", "timeout": 1, **more}
        return self._run("gpu_sharing", args, check=check)

    def look(self, *nodes: dict[str, Any]) -> dict[str, Any]:
        result = self._run("gpu_sharing_info", {"kubeconfig": str(self._kubeconfig), "nodes": list(nodes)})
        assert not result["changed"]
        found: dict[str, Any] = result["nodes"]
        return found

    @property
    def written(self) -> dict[str, str] | None:
        """The node's labels, or None if nothing was written."""
        node = self.state.nodes["gpu1"]
        return node.body()["metadata"]["labels"] if node.metadata != self._before else None

    def labels(self, **labels: str) -> None:
        """Set the labels that a run has left; with `changing`, the run was interrupted."""
        names = {"configuration": CONFIGURATION, "changing": CHANGING}
        node = self.state.nodes["gpu1"]
        if "changing" in labels:
            record = {"cordoned": False, "data": {}, "failure": "", "labels": {CHANGING: None}, "policy": "label"}
            node.metadata["annotations"] = {CHANGING: json.dumps(record, sort_keys=True)}
        node.labels = {names[key]: value for key, value in labels.items()}
        self._before = copy.deepcopy(node.metadata)


@pytest.fixture
def cluster(run_module: Callable[..., dict[str, Any]], tmp_path: Path) -> Iterator[Cluster]:
    state = FakeCluster(FakeNode("gpu1", ["GPU-0", "GPU-1"]))
    with ExitStack() as stack:
        yield Cluster(run_module, stack.enter_context(state.serve(tmp_path)), state)


def test_check_mode_shows_the_change_in_resources(cluster: Cluster) -> None:
    result = cluster.share(check=True, **MIG)
    assert result["changed"]
    assert (result["diff"]["before"], result["diff"]["after"]) == (
        "nvidia.com/gpu 2\nexclusive\n",
        "nvidia.com/mig-1g.5gb 14\nmig-mixed\n",
    )
    assert cluster.written is None


def test_a_node_without_sharing_needs_no_label(cluster: Cluster) -> None:
    result = cluster.share(configuration="exclusive", amounts={"nvidia.com/gpu": 2})
    assert result["changed"] is False
    assert cluster.written is None


@pytest.mark.parametrize(
    ("before", "options", "changed", "written"),
    [
        ({}, {**MIG, "state": "changing"}, True, {CONFIGURATION: "mig-mixed", CHANGING: "changing"}),
        ({"configuration": "mig-mixed", "changing": "changing"}, MIG, True, {CONFIGURATION: "mig-mixed"}),
        ({"configuration": "mig-mixed", "changing": "changing"}, {**MIG, "state": "changing"}, False, None),
        ({"configuration": "mig-mixed"}, MIG, False, None),
        ({"configuration": "mig-mixed"}, {"configuration": "exclusive"}, True, {CONFIGURATION: "exclusive"}),
        ({"changing": "changing"}, {"configuration": "exclusive"}, True, {}),
    ],
)
def test_labels_follow_the_state(
    cluster: Cluster,
    before: dict[str, str],
    options: dict[str, Any],
    changed: bool,
    written: dict[str, str] | None,
) -> None:
    cluster.labels(**before)
    result = cluster.share(**options)
    assert (result["changed"], cluster.written) == (changed, written)


@pytest.mark.parametrize(
    ("before", "wanted", "differs"),
    [
        ({}, MIG, True),
        ({"configuration": "mig-mixed"}, MIG, False),
        ({"configuration": "mig-mixed", "changing": "changing"}, MIG, True),
        ({}, {"configuration": "exclusive", "amounts": {"nvidia.com/gpu": 2}}, False),
    ],
)
def test_present_and_declared_sharing_of_nodes_are_compared(
    cluster: Cluster, before: dict[str, str], wanted: dict[str, Any], differs: bool
) -> None:
    cluster.labels(**before)
    found = cluster.look({"name": "gpu1", **wanted}, {"name": "gpu9", **wanted})
    assert (found["gpu1"]["differs"], found["gpu1"]["drained"]) == (differs, False)
    assert found["gpu9"]["differs"] is (wanted is MIG)
    now = "gpu1 nvidia.com/gpu 2 -> nvidia.com/mig-1g.5gb 14" if wanted is MIG else ""
    assert found["gpu1"]["summary"] == now


def test_a_node_that_an_earlier_run_has_drained_is_recognized(cluster: Cluster) -> None:
    cluster.state.nodes["gpu1"].metadata = {"annotations": {"gpulab.io/disruption": "{}"}}
    assert cluster.look({"name": "gpu1", **MIG})["gpu1"]["drained"] is True


def test_pods_placed_by_labels_of_the_operator_are_paused_during_a_change(cluster: Cluster) -> None:
    plugin, exporter = "nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.dcgm-exporter"
    node = cluster.state.nodes["gpu1"]
    own = {plugin: "true", exporter: "false"}
    node.labels = dict(own)
    options = {**MIG, "pause": [plugin, exporter, "nvidia.com/gpu.deploy.dcgm"]}
    assert cluster.share(check=True, state="changing", **options)["changed"]
    assert node.body()["metadata"]["labels"] == own
    assert cluster.share(state="changing", **options)["changed"]
    paused = {plugin: "paused-for-gpu-sharing", CHANGING: "changing", CONFIGURATION: "mig-mixed"}
    assert node.body()["metadata"]["labels"] == {**own, **paused}
    assert not cluster.share(state="changing", **options)["changed"]
    assert cluster.share(**MIG)["changed"]
    assert node.body()["metadata"]["labels"] == {**own, CONFIGURATION: "mig-mixed"}
    assert node.metadata["annotations"] == {}


def test_a_label_without_a_record_is_removed(cluster: Cluster) -> None:
    cluster.state.nodes["gpu1"].labels = {CHANGING: "changing"}
    assert cluster.share(**MIG)["changed"]
    assert cluster.written == {CONFIGURATION: "mig-mixed"}


def plugin(cluster: Cluster, node: str = "gpu1") -> None:
    cluster.state.user_pod(f"plugin-{node}", node, gpus=0)["metadata"]["labels"] = {"app": "plugin"}


def test_the_module_waits_until_pods_with_gpus_have_left(cluster: Cluster) -> None:
    plugin(cluster)
    plugin(cluster, "gpu2")

    def leave() -> None:
        with cluster.state.lock:
            del cluster.state.pods["team/plugin-gpu1"]

    timer = threading.Timer(0.5, leave)
    timer.start()
    started = time.monotonic()
    result = cluster.share(**MIG, state="changing", leaving=["team/plugin"], timeout=30)
    timer.join()
    assert not result["failed"]
    assert 0.5 < time.monotonic() - started < 15


def test_pods_that_do_not_leave_are_named(cluster: Cluster) -> None:
    plugin(cluster)
    result = cluster.share(**MIG, state="changing", leaving=["team/plugin"], timeout=0)
    assert result["failed"]
    assert "node gpu1: after 0 s these pods still hold its GPUs: team/plugin-gpu1" in result["msg"]


def test_a_missing_node_is_an_error_except_in_check_mode(cluster: Cluster) -> None:
    assert cluster.share(check=True, node="gpu9", **MIG)["changed"]
    result = cluster.share(node="gpu9", **MIG)
    assert result["failed"] and "no node of this name" in result["msg"]
