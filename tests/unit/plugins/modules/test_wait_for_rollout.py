# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeNode


class Cluster:
    def __init__(self, run: Callable[..., dict[str, Any]], kubeconfig: Path, state: FakeCluster) -> None:
        self._run = run
        self._kubeconfig = kubeconfig
        self.state = state
        pod = state.user_pod("plugin-x", "gpu1", gpus=0)
        pod["metadata"]["labels"] = {"app": "plugin"}
        pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        spec = {"selector": {"matchLabels": {"app": "plugin"}}, "template": {"spec": {}}}
        state.daemonsets = [{"metadata": {"name": "plugin"}, "spec": spec}]

    def wait(self, check: bool = False, **more: Any) -> dict[str, Any]:
        args = {
            "kubeconfig": str(self._kubeconfig),
            "namespace": "team",
            "daemonsets": ["plugin"],
            "nodes": ["gpu1"],
            "nodes_ready": True,
            "allocatable": {"gpu1": 2},
            "timeout": 1,
            **more,
        }
        return self._run("wait_for_rollout", args, check=check)


@pytest.fixture
def cluster(run_module: Callable[..., dict[str, Any]], tmp_path: Path) -> Iterator[Cluster]:
    state = FakeCluster(FakeNode("cp1", ready=False), FakeNode("gpu1", ["GPU-0", "GPU-1"]))
    with ExitStack() as stack:
        yield Cluster(run_module, stack.enter_context(state.serve(tmp_path)), state)


def test_the_wait_ends_immediately_if_everything_is_ready(cluster: Cluster) -> None:
    result = cluster.wait(timeout=60)
    assert not result["failed"]
    assert not result["changed"]
    assert result["missing"] == []


def test_a_late_rollout_is_waited_for(cluster: Cluster) -> None:
    node = cluster.state.nodes["gpu1"]
    node.allocatable = 0

    def recover() -> None:
        while "/api/v1/nodes" not in cluster.state.watched:
            time.sleep(0.05)
        node.allocatable = 2

    threading.Thread(target=recover, daemon=True).start()
    assert not cluster.wait(timeout=60)["failed"]
    # Changes are reported by watches.
    assert cluster.state.listed.count("/api/v1/nodes") == cluster.state.watched.count("/api/v1/nodes") == 1


def test_missing_items_are_reported_with_the_pods_message(cluster: Cluster) -> None:
    cluster.state.nodes["gpu1"].allocatable = 0
    cluster.state.plugin_log = "NVML: Driver/library version mismatch"
    result = cluster.wait()
    assert result["failed"] and not result["inconclusive"]
    assert "gpu1: 0 of 2 GPUs are allocatable" in result["msg"]
    assert "NVML: Driver/library version mismatch" in result["msg"]


def test_an_unreachable_api_gives_an_inconclusive_result(cluster: Cluster, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", (tmp_path / "kubeconfig").read_text()))
    result = cluster.wait(kubeconfig=str(other))
    assert result["failed"] and result["inconclusive"]


@pytest.mark.parametrize(("reason", "inconclusive"), [("ImagePullBackOff", True), ("CrashLoopBackOff", False)])
def test_an_image_that_cannot_be_pulled_gives_an_inconclusive_result(
    cluster: Cluster, reason: str, inconclusive: bool
) -> None:
    waiting = {"name": "plugin", "image": "registry.example/plugin:1", "state": {"waiting": {"reason": reason}}}
    pod = cluster.state.pods["team/plugin-x"]
    pod["status"] = {"phase": "Pending", "containerStatuses": [waiting]}
    cluster.state.nodes["gpu1"].allocatable = 0
    result = cluster.wait()
    assert result["failed"] and result["inconclusive"] == inconclusive
    cluster.state.daemonsets = []
    assert not cluster.wait()["inconclusive"]


def test_check_mode_checks_once_and_never_fails(cluster: Cluster) -> None:
    cluster.state.daemonsets = []
    started = time.monotonic()
    result = cluster.wait(check=True, timeout=60)
    assert not result["failed"]
    assert result["missing"] == [{"node": "gpu1", "text": "there is no DaemonSet plugin"}]
    assert time.monotonic() - started < 20


def test_unhealthy_gpus_can_be_tolerated(cluster: Cluster) -> None:
    cluster.state.nodes["gpu1"].allocatable = 1
    cluster.state.plugin_log = "device marked unhealthy: GPU-1"
    assert cluster.wait()["failed"]
    result = cluster.wait(tolerate_unhealthy=True)
    assert not result["failed"]
    assert result["missing"] == [{"node": "gpu1", "text": "1 of 2 GPUs are allocatable, 1 of 2 are unhealthy"}]
    assert "device marked unhealthy: GPU-1" in str(result["warnings"])


def test_gpus_that_are_not_offered_do_not_count_as_unhealthy(cluster: Cluster) -> None:
    assert cluster.wait(tolerate_unhealthy=True, allocatable={"gpu1": 3})["failed"]
