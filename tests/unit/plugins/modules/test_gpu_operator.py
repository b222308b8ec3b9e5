# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from dra_objects import CLASSES, SLICES, device, device_class, resource_slice
from fake_cluster import FakeCluster, FakeNode

Run = Callable[..., dict[str, Any]]
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"


class Cluster:
    def __init__(self, run: Run, kubeconfig: Path, state: FakeCluster) -> None:
        self._run = run
        self._kubeconfig = str(kubeconfig)
        self.state = state

    def policy(self, state: str, error: str = "", reason: str = "Reconciled") -> None:
        conditions = [{"type": "Ready", "status": str(state == "ready"), "reason": reason}]
        conditions += [{"type": "Error", "status": "True", "message": error}] if error else []
        status = {"state": state, "conditions": conditions}
        self.state.objects[POLICIES] = {"items": [{"metadata": {"name": "cluster-policy"}, "status": status}]}

    def wait(self, check: bool = False, **more: Any) -> dict[str, Any]:
        args = {"kubeconfig": self._kubeconfig, "namespace": "team", "cluster_policy": "cluster-policy", **more}
        return self._run("wait_for_rollout", {"timeout": 1, **args}, check=check)

    def plugins(self) -> dict[str, Any]:
        return self._run("gpu_plugins_info", {"kubeconfig": self._kubeconfig})


@pytest.fixture
def cluster(run_module: Run, tmp_path: Path) -> Iterator[Cluster]:
    state = FakeCluster(FakeNode("gpu1", ["GPU-0"], labels={"nvidia.com/gpu.present": "true"}))
    with ExitStack() as stack:
        yield Cluster(run_module, stack.enter_context(state.serve(tmp_path)), state)


def test_the_wait_ends_when_the_operator_is_ready(cluster: Cluster) -> None:
    cluster.policy("notReady", "ClusterPolicy is not ready; states not ready: [state-driver]")
    threading.Timer(1.5, cluster.policy, ["ready"]).start()
    result = cluster.wait(timeout=60)
    assert not result["failed"]
    assert not result["changed"]


def test_after_a_change_the_operator_must_stay_ready_for_a_while(cluster: Cluster) -> None:
    cluster.policy("ready")
    threading.Timer(0.5, cluster.policy, ["notReady", "states not ready: [state-driver]"]).start()
    result = cluster.wait(timeout=3, settle=2)
    assert result["failed"]
    assert "operand nvidia-driver-daemonset" in result["msg"]


def test_an_operator_without_node_labels_is_not_ready(cluster: Cluster) -> None:
    cluster.policy("ready", reason="NFDLabelsMissing")
    cluster.state.nodes["gpu1"].labels = {}
    result = cluster.wait(allocatable={"gpu1": 1})
    assert result["failed"]
    assert [entry["node"] for entry in result["missing"]] == ["gpu1", ""]
    assert "NFDLabelsMissing" in result["msg"]


@pytest.mark.parametrize(
    ("state", "ready"), [("upgrade-required", False), ("upgrade-failed", False), ("upgrade-done", True)]
)
def test_an_operator_that_is_changing_a_driver_is_not_ready(cluster: Cluster, state: str, ready: bool) -> None:
    cluster.policy("ready")
    cluster.state.nodes["gpu1"].labels |= {"nvidia.com/gpu-driver-upgrade-state": state}
    result = cluster.wait(allocatable={"gpu1": 1})
    assert result["failed"] is not ready
    assert ready or state in result["msg"]


def test_an_operator_that_is_not_the_leader_is_not_ready(cluster: Cluster) -> None:
    cluster.policy("ready")
    lease = {"metadata": {"name": "53822513.nvidia.com"}, "spec": {"holderIdentity": "gpu-operator-former_1"}}
    cluster.state.objects["/apis/coordination.k8s.io/v1/namespaces/team/leases/53822513.nvidia.com"] = lease
    assert "held by gpu-operator-former" in cluster.wait()["msg"]


def test_an_operand_that_is_not_ready_is_named_with_its_pods_message(cluster: Cluster) -> None:
    cluster.policy("notReady", "ClusterPolicy is not ready; states not ready: [state-device-plugin]")
    name = "nvidia-device-plugin-daemonset"
    cluster.state.daemonsets = [
        {
            "metadata": {"name": name, "ownerReferences": [{"kind": "ClusterPolicy", "name": "cluster-policy"}]},
            "spec": {"selector": {"matchLabels": {"app": "plugin"}}},
            "status": {"desiredNumberScheduled": 1},
        }
    ]
    pod = cluster.state.user_pod("plugin-x", "gpu1", gpus=0)
    pod["metadata"]["labels"] = {"app": "plugin"}
    pod["status"]["containerStatuses"] = [
        {"name": "c", "image": "i", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {}}
    ]
    cluster.state.plugin_log = "NVML: Driver/library version mismatch"
    result = cluster.wait()
    assert result["failed"]
    assert f"gpu1: operand {name}: CrashLoopBackOff" in result["msg"]
    assert "NVML: Driver/library version mismatch" in result["msg"]


def test_check_mode_checks_once_and_never_fails(cluster: Cluster) -> None:
    started = time.monotonic()
    result = cluster.wait(check=True, timeout=60, settle=30)
    assert not result["failed"]
    assert result["missing"] == [{"node": "", "text": "there is no ClusterPolicy cluster-policy"}]
    assert time.monotonic() - started < 30


def test_the_module_can_also_wait_for_the_gpus(cluster: Cluster) -> None:
    cluster.policy("ready")
    cluster.state.nodes["gpu1"].allocatable = 0
    assert "\n- gpu1: 0 of 1 GPUs are allocatable" in cluster.wait(allocatable={"gpu1": 1})["msg"]
    result = cluster.wait(allocatable={"gpu1": 1}, tolerate_unhealthy=True)
    assert not result["failed"]
    assert [entry["node"] for entry in result["missing"]] == ["gpu1"]


def test_all_providers_of_gpus_are_named(cluster: Cluster) -> None:
    found = cluster.plugins()
    assert (found["plugins"], found["policies"]) == ([], [])
    cluster.policy("ready")
    spec = {
        "containers": [{"name": "nvidia-device-plugin"}],
        "volumes": [{"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
    }
    for name, owners in (("ours", []), ("theirs", [{"kind": "ClusterPolicy", "name": "cluster-policy"}])):
        metadata = {"namespace": "team", "name": name, "ownerReferences": owners}
        cluster.state.daemonsets.append({"metadata": metadata, "spec": {"template": {"spec": spec}}})
        pod = cluster.state.user_pod(f"{name}-x", "gpu1")
        pod["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": name}]
        pod["spec"] = {**spec, "nodeName": "gpu1"}
    found = cluster.plugins()
    assert [(plugin["name"], plugin["policy"]) for plugin in found["plugins"]] == [
        ("ours", ""),
        ("theirs", "cluster-policy"),
    ]
    assert found["shared"] == {"gpu1": ["team/ours", "team/theirs"]}
    assert found["policies"] == ["cluster-policy"]


def program(path: Path, says: str) -> str:
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("says", "chart", "words"),
    [
        ("v3.22.0+g0000000", "", []),
        ("v4.1.0", "chart", []),
        ("v3.2.1", "", ["has version 3.2.1, but 3.8 or newer", "set wandb_launch_helm to"]),
        ("no idea", "", ["it printed 'no idea'"]),
        ("v3.22.0", "gone.tgz", ["gone.tgz", "Correct wandb_launch_chart_path."]),
    ],
)
def test_helm_is_found_in_a_supported_version(
    run_module: Run, tmp_path: Path, says: str, chart: str, words: list[str]
) -> None:
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "Chart.yaml").write_text("name: gpu-operator\n")
    args = {"helm": program(tmp_path / "helm", says), "chart": str(tmp_path / chart) if chart else ""}
    settings = {"helm_setting": "wandb_launch_helm", "chart_setting": "wandb_launch_chart_path"}
    result = run_module("helm_program_info", {**args, **settings})
    assert result["failed"] == bool(words), result
    assert all(word in result["msg"] for word in words)
    if not words:
        assert result["version"] == says.removeprefix("v").partition("+")[0]


def test_a_missing_helm_is_reported_with_a_remedy(run_module: Run) -> None:
    result = run_module("helm_program_info", {"helm": "/nowhere/helm", "helm_setting": "wandb_launch_helm"})
    assert result["failed"]
    assert all(word in result["msg"] for word in ("/nowhere/helm", "wandb_launch_helm", "cluster_api_delegate"))


def test_gpus_offered_by_a_dra_driver_are_reported(cluster: Cluster) -> None:
    assert cluster.plugins()["dra"] == {"gpus": {}, "classes": {}}
    slices = [resource_slice("gpu1", device("gpu-0")), resource_slice("gpu1", driver="compute-domain.nvidia.com")]
    cluster.state.objects[SLICES] = {"items": slices}
    cluster.state.objects[CLASSES] = {"items": [device_class("gpu.nvidia.com", "nvidia.com/gpu")]}
    result = cluster.plugins()
    assert result["dra"] == {"gpus": {"gpu1": 1}, "classes": {"gpu.nvidia.com": "nvidia.com/gpu"}}
    [problem] = result["problems"]
    assert problem["kind"] == "gpus_offered_twice" and "The GPUs of gpu1" in problem["what"]
    cluster.state.nodes["gpu1"].labels = {"nvidia.com/gpu.deploy.device-plugin": "false"}
    assert cluster.plugins()["problems"] == []
    # The plugin's pod still exists.
    pod = cluster.state.user_pod("plugin-x", "gpu1", gpus=0)
    pod["spec"]["volumes"] = [{"hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
    pod["spec"]["containers"][0] |= {"name": "nvidia-device-plugin", "image": "i"}
    assert [each["kind"] for each in cluster.plugins()["problems"]] == ["gpus_offered_twice"]
