# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module against a small API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from acceptance_lab import A100, MODEL, T4
from ansible_collections.gpulab.kubernetes.plugins.module_utils._benchmark.log import MARK
from fake_cluster import FakeCluster, FakeNode

NAMESPACE = "gpulab-gpu-benchmark"
OWNER = {"app.kubernetes.io/managed-by": "gpulab.kubernetes"}


def report(gpu: str, **changes: Any) -> str:
    figures = {"memory_bytes_per_s": 2e12, "bf16_flop_per_s": 3e14, "fp32_flop_per_s": 19e12}
    known = {"uuid": gpu, "gpus": 1, "device": "cuda", "torch": "2.9.1", "figures": figures, "facts": {}, "notes": []}
    return f"{MARK}{json.dumps({**known, **changes})}\n"


class Lab:
    """Two workers with GPUs, and the module to measure them."""

    def __init__(self, run: Callable[..., dict[str, Any]], kubeconfig: Path, cluster: FakeCluster) -> None:
        self._run, self._kubeconfig, self.cluster = run, kubeconfig, cluster
        self.hosts: list[dict[str, Any]] = [
            {"name": "cp1"},
            {"name": "gpu1", "pci": 3, "gpus": [self.gpu(n, uuid, "Tesla T4", 15360) for n, uuid in enumerate(T4)]},
            {"name": "gpu2", "pci": 2, "gpus": [self.gpu(n, uuid, MODEL, 40960) for n, uuid in enumerate(A100)]},
        ]

    @staticmethod
    def gpu(index: int, uuid: str, name: str, memory: int) -> dict[str, Any]:
        return {"index": index, "uuid": uuid, "name": name, "memory_total_mib": memory, "mig": {"devices": []}}

    def measure(self, *, check: bool = False, **more: Any) -> dict[str, Any]:
        args = {
            "kubeconfig": str(self._kubeconfig),
            "nodes": self.hosts,
            "image": "torch:1",
            "script": "print()",
            "timeout": 2,
            **more,
        }
        return self._run("gpu_benchmark", args, check=check)


@pytest.fixture
def lab(run_module: Callable[..., dict[str, Any]], tmp_path: Path) -> Iterator[Lab]:
    cluster = FakeCluster(FakeNode("cp1"), FakeNode("gpu1", T4), FakeNode("gpu2", A100, MODEL))
    cluster.benchmark = report
    with ExitStack() as stack:
        yield Lab(run_module, stack.enter_context(cluster.serve(tmp_path)), cluster)


def reasons(result: dict[str, Any]) -> dict[str, str]:
    return {each["uuid"]: each["reason"] for each in result["result"]["left_out"]}


def test_each_gpu_is_measured_once_and_nothing_is_left(lab: Lab) -> None:
    result = lab.measure()
    assert result["changed"]
    found = result["result"]
    assert sorted(row["uuid"] for row in found["gpus"]) == sorted([*T4, *A100])
    assert (found["left_out"], found["failures"], found["warnings"]) == ([], [], [])
    row = next(row for row in found["gpus"] if row["uuid"] == "GPU-a1")
    assert {key: row[key] for key in ("node", "index", "name", "memory_total_mib", "device", "torch")} == {
        "node": "gpu2",
        "index": 1,
        "name": MODEL,
        "memory_total_mib": 40960,
        "device": "cuda",
        "torch": "2.9.1",
    }
    assert row["measured"] == found["measured"] and row["measured"].endswith("Z")
    assert result["summary"][0] == (
        f"{found['gpus'][0]['node']} GPU 0 ({found['gpus'][0]['name']}): memory 2000 GB/s, bf16 300 TFLOP/s, fp32 19 "
        "TFLOP/s"
    )
    assert (list(lab.cluster.namespaces), lab.cluster.pods) == (["kube-system"], {})
    # One after another on a node, and each keeps its GPU until the last one has reported.
    pods = [name.removeprefix("Pod/") for name in lab.cluster.created if name.startswith("Pod/")]
    assert [name for name in pods if name.endswith("gpu1")] == ["gpu-0-gpu1", "gpu-1-gpu1", "gpu-2-gpu1"]
    assert lab.cluster.most_gpu_pods == 5


def test_a_rehearsal_creates_nothing(lab: Lab) -> None:
    lab.hosts[1]["held"] = {"GPU-t0": "team/notebook"}
    lab.cluster.user_pod("notebook", "gpu1")
    lab.cluster.user_pod("train", "gpu2")
    result = lab.measure(check=True)
    assert (result["changed"], result["result"], lab.cluster.created) == (True, {}, [])
    assert result["summary"] == [
        "Would measure 2 of 2 free GPUs on gpu1",
        "Would measure 1 of 2 free GPUs on gpu2; the rest: in use by team/train",
        "gpu1 GPU 0: left out, in use by team/notebook",
    ]


def test_gpus_in_use_are_left_out_and_named(lab: Lab) -> None:
    lab.cluster.user_pod("notebook", "gpu1")
    lab.cluster.user_pod("train", "gpu2", gpus=2)
    lab.cluster.nodes["gpu1"].given = T4[1:]
    lab.hosts[1]["held"] = {"GPU-t0": "team/notebook"}
    result = lab.measure()
    assert sorted(row["uuid"] for row in result["result"]["gpus"]) == T4[1:]
    # What the kubelet did not say is known from the API.
    assert reasons(result) == {
        "GPU-t0": "in use by team/notebook",
        "GPU-a0": "in use by team/train",
        "GPU-a1": "in use by team/train",
    }
    assert "team/train" in lab.cluster.pods


def isolated(node: FakeNode) -> None:
    node.metadata = {"annotations": {"gpulab.io/gpu-isolation": json.dumps({"failure": "Xid 79", "policy": "taint"})}}


def shared(node: FakeNode) -> None:
    node.labels = {"nvidia.com/gpu.sharing-strategy": "time-slicing"}


def replicated(node: FakeNode) -> None:
    node.allocatable = 8


def not_ready(node: FakeNode) -> None:
    node.ready = False


def fewer(node: FakeNode) -> None:
    node.allocatable = 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (isolated, "the node is isolated: Xid 79"),
        (shared, "several pods share it, so the others would be measured, too"),
        (replicated, "several pods share it, so the others would be measured, too"),
        (not_ready, "the node is not ready: kubelet stopped posting"),
        (fewer, "the node offers only 0 GPUs to pods"),
    ],
)
def test_nodes_that_are_left_out_are_named(lab: Lab, change: Callable[[FakeNode], None], reason: str) -> None:
    change(lab.cluster.nodes["gpu2"])
    result = lab.measure()
    assert reasons(result) == {"GPU-a0": reason, "GPU-a1": reason}
    assert f"gpu2 GPU 1: left out, {reason}" in result["summary"]


def test_a_cordoned_node_is_left_out(lab: Lab) -> None:
    lab.cluster.nodes["gpu2"].cordoned = True
    assert set(reasons(lab.measure()).values()) == {"the node is cordoned"}


def test_partitioned_and_silent_gpus_are_left_out(lab: Lab) -> None:
    lab.hosts[2]["gpus"][0]["mig"] = {"current": "enabled", "devices": [{"uuid": "MIG-1"}]}
    lab.hosts[2]["gpus"][1]["uuid"] = None
    lab.hosts.append({"name": "gpu3", "gpus": [lab.gpu(0, "GPU-x", MODEL, 40960)]})
    lab.hosts.append({"name": "cp1", "pci": 1, "complaint": "no driver"})
    result = lab.measure()
    assert reasons(result) == {
        "GPU-a0": "it is partitioned into MIG devices",
        "": "the driver reports no GPU: no driver",
        "GPU-x": "the cluster has no such node",
    }
    assert "gpu2 GPU 1: left out, it does not respond" in result["summary"]
    assert "gpu3 GPU 0: left out, the cluster has no such node" in result["summary"]


def test_without_a_free_gpu_nothing_changes(lab: Lab) -> None:
    lab.hosts = [{"name": "cp1"}]
    result = lab.measure()
    assert (result["changed"], result["summary"]) == (False, ["There are no GPUs to measure."])
    assert lab.cluster.created == []


def test_a_slow_gpu_is_a_warning_and_no_failure(lab: Lab) -> None:
    slow = {"memory_bytes_per_s": 100e9}
    lab.cluster.benchmark = lambda uuid: report(
        uuid, figures=slow if uuid == "GPU-t2" else {"memory_bytes_per_s": 300e9}, facts={"throttle_reasons": 0x40}
    )
    result = lab.measure()
    [warning] = result["result"]["warnings"]
    assert warning.startswith(
        "gpu1 GPU 2 (Tesla T4) is slower than the median of its peers: memory bandwidth 100 GB/s (33 %"
    )
    assert f"Warning: {warning}" in result["summary"]
    rows = {row["uuid"]: row["warnings"] for row in result["result"]["gpus"]}
    assert (rows["GPU-t2"], rows["GPU-t0"]) == ([warning], [])


def test_figures_of_a_cpu_are_labelled(lab: Lab) -> None:
    lab.cluster.benchmark = lambda uuid: report(
        uuid, device="cpu", figures={"memory_bytes_per_s": 1e9 * (1 + int(uuid[-1]))}
    )
    result = lab.measure()
    assert result["result"]["warnings"] == []
    assert all(": on the CPU: memory" in line for line in result["summary"][:5])
    assert result["summary"][-1] == ("Note: measured on the CPU (no CUDA): these figures say nothing about the GPU.")


def test_a_gpu_that_is_given_twice_is_an_error_in_words(lab: Lab) -> None:
    lab.cluster.nodes["gpu2"].given = ["GPU-a0"]
    result = lab.measure()
    assert [row["uuid"] for row in result["result"]["gpus"] if row["node"] == "gpu2"] == ["GPU-a0"]
    [failure] = result["result"]["failures"]
    assert failure["reason"] == "it was given GPU-a0, which pod gpu-0-gpu2 had measured already and still holds"
    assert reasons(result) == {"GPU-a1": "no pod was given it; see the failures on gpu2"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpus": 2}, "nvidia-smi lists 2 GPUs in it instead of one"),
        ({"gpus": 0, "uuid": ""}, "nvidia-smi lists 0 GPUs in it instead of one"),
        ({"uuid": "GPU-t0"}, "it was given GPU-t0, which is not one of the node's free GPUs"),
        ({"uuid": 7}, "it was given a GPU without a UUID, which is not one of the node's free GPUs"),
        ({"figures": {}}, "it reported no figures"),
        ({"figures": None, "notes": ["it was stopped after 60 s"]}, "it was stopped after 60 s"),
    ],
    ids=str,
)
def test_what_a_pod_may_not_report_is_a_failure(lab: Lab, changes: dict[str, Any], reason: str) -> None:
    lab.cluster.benchmark = lambda uuid: report(uuid, **(changes if uuid == "GPU-a0" else {}))
    result = lab.measure()
    [failure] = result["result"]["failures"]
    assert (failure["node"], failure["pod"], failure["reason"]) == ("gpu2", "gpu-0-gpu2", reason)
    assert f"gpu2: pod gpu-0-gpu2: {reason}" in result["summary"]
    assert "GPU-a1" in [row["uuid"] for row in result["result"]["gpus"]]
    assert lab.cluster.pods == {}


def test_a_pod_that_never_reports_is_a_failure_and_the_others_are_not_tried(lab: Lab) -> None:
    lab.cluster.benchmark = lambda uuid: "" if uuid == "GPU-a0" else report(uuid)
    result = lab.measure(timeout=1)
    [failure] = result["result"]["failures"]
    assert failure["reason"] == "it has not reported (Running) after 1 s (gpu_benchmark_timeout)"
    assert "Pod/gpu-1-gpu2" not in lab.cluster.created
    assert lab.cluster.pods == {} and set(reasons(result)) == set(A100)


def test_an_image_that_cannot_be_pulled_is_named(lab: Lab) -> None:
    lab.cluster.pull_error = "not found"
    result = lab.measure(timeout=1)
    assert [each["pod"] for each in result["result"]["failures"]] == ["gpu-0-gpu1", "gpu-0-gpu2"]
    assert "ImagePullBackOff: image torch:1 can't be pulled: not found" in result["result"]["failures"][0]["reason"]


def test_a_pod_that_the_freezer_stopped_is_made_again(lab: Lab) -> None:
    lab.cluster.unable_to_freeze = 1
    result = lab.measure()
    assert len(result["result"]["gpus"]) == 5
    assert "Pod/gpu-0-gpu1-again" in lab.cluster.created


def test_leftovers_of_an_interrupted_run_are_removed_first(lab: Lab) -> None:
    lab.measure(timeout=1)
    owner = {**OWNER, "app.kubernetes.io/part-of": "gpu-benchmark"}
    lab.cluster.namespaces[NAMESPACE] = {"metadata": {"name": NAMESPACE, "uid": "u", "labels": owner}}
    lab.cluster.pods[f"{NAMESPACE}/gpu-0-gpu1"] = {
        **lab.cluster.user_pod("x", "gpu1"),
        "metadata": {"name": "gpu-0-gpu1", "namespace": NAMESPACE},
    }
    del lab.cluster.pods["team/x"]
    # The kubelet's record still has it.
    lab.hosts[1]["held"] = {"GPU-t0": f"{NAMESPACE}/gpu-0-gpu1"}
    assert len(lab.measure()["result"]["gpus"]) == 5


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        ({}, "app.kubernetes.io/managed-by=gpulab.kubernetes, app.kubernetes.io/part-of=gpu-benchmark"),
        ({**OWNER, "app.kubernetes.io/part-of": "dcgm-exporter"}, "app.kubernetes.io/part-of=gpu-benchmark"),
        ({"app.kubernetes.io/part-of": "gpu-benchmark"}, "app.kubernetes.io/managed-by=gpulab.kubernetes"),
    ],
    ids=["unmanaged", "of another component", "of another manager"],
)
def test_a_namespace_for_something_else_is_not_touched(lab: Lab, labels: dict[str, str], missing: str) -> None:
    lab.cluster.namespaces[NAMESPACE] = {"metadata": {"name": NAMESPACE, "uid": "u", "labels": labels}}
    result = lab.measure()
    assert result["failed"] and f"created for something else (no label {missing})" in result["msg"]
    assert "Choose another with gpu_benchmark_namespace." in result["msg"]
    assert lab.cluster.created == [] and NAMESPACE in lab.cluster.namespaces


def test_another_run_that_takes_over_is_an_error(lab: Lab) -> None:
    lab.cluster.takeover = True
    result = lab.measure()
    assert "another run has taken over namespace gpulab-gpu-benchmark" in result["msg"]
