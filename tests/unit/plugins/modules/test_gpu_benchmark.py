# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_benchmark with a small API server."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dra_objects
import fake_cluster
import pytest
from acceptance_lab import A100, MODEL, T4
from ansible_collections.gpulab.kubernetes.plugins.module_utils._benchmark import pods, run
from ansible_collections.gpulab.kubernetes.plugins.module_utils._benchmark.log import MARK
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster import own_namespace
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.modules import gpu_benchmark
from fake_cluster import FakeCluster, FakeNode

NAMESPACE = "gpulab-gpu-benchmark"
OWNER = {"app.kubernetes.io/managed-by": "gpulab.kubernetes"}


def report(gpu: str, **changes: Any) -> str:
    figures = {"memory_bytes_per_s": 2e12, "bf16_flop_per_s": 3e14, "fp32_flop_per_s": 19e12}
    known = {"uuid": gpu, "gpus": 1, "device": "cuda", "torch": "2.9.1", "figures": figures, "facts": {}, "notes": []}
    return f"{MARK}{json.dumps({**known, **changes})}\n"


class Lab:
    """Two workers with GPUs, and the module to measure them: in this process, with time limits for tests."""

    def __init__(self, kubeconfig: Path, cluster: FakeCluster) -> None:
        self.kubeconfig, self.cluster = kubeconfig, cluster
        self.warnings: list[str] = []
        self.hosts: list[dict[str, Any]] = [
            {"name": "cp1"},
            {"name": "gpu1", "pci": 3, "gpus": [self.gpu(n, uuid, "Tesla T4", 15360) for n, uuid in enumerate(T4)]},
            {"name": "gpu2", "pci": 2, "gpus": [self.gpu(n, uuid, MODEL, 40960) for n, uuid in enumerate(A100)]},
        ]

    @staticmethod
    def gpu(index: int, uuid: str, name: str, memory: int) -> dict[str, Any]:
        return {
            "index": index,
            "uuid": uuid,
            "name": name,
            "memory_total_mib": memory,
            "mig": {"current": None, "devices": []},
        }

    def measure(self, *, check: bool = False, **more: Any) -> dict[str, Any]:
        defaults = {"pci": 0, "gpus": [], "held": {}, "complaint": ""}
        params = {
            "kubeconfig": str(self.kubeconfig),
            "nodes": [{**defaults, **host} for host in self.hosts],
            "images": ["torch:1"],
            "python": "python3",
            "script": "print()",
            "namespace": NAMESPACE,
            "holder": "alice@laptop",
            "timeout": 2,
            **more,
        }
        module = SimpleNamespace(params=params, check_mode=check, warn=self.warnings.append)
        try:
            return {"failed": False, **gpu_benchmark.run_module(module)}
        except DomainError as error:
            return {"failed": True, "msg": str(error)}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setattr(pods, "SHORTEST_TIMEOUT", 0)
    cluster = FakeCluster(FakeNode("cp1"), FakeNode("gpu1", T4), FakeNode("gpu2", A100, MODEL))
    cluster.benchmark = report
    with ExitStack() as stack:
        yield Lab(stack.enter_context(cluster.serve(tmp_path)), cluster)


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
    # One after another on a node; each keeps its GPU until the last one has reported.
    pods = [name.removeprefix("Pod/") for name in lab.cluster.created if name.startswith("Pod/")]
    assert [name for name in pods if name.endswith("gpu1")] == ["gpu-0-gpu1", "gpu-1-gpu1", "gpu-2-gpu1"]
    assert lab.cluster.most_gpu_pods == 5


def test_check_mode_creates_nothing(lab: Lab) -> None:
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


def test_gpus_in_use_are_skipped_and_named(lab: Lab) -> None:
    lab.cluster.user_pod("notebook", "gpu1")
    lab.cluster.user_pod("train", "gpu2", gpus=2)
    lab.cluster.nodes["gpu1"].given = T4[1:]
    lab.hosts[1]["held"] = {"GPU-t0": "team/notebook"}
    result = lab.measure()
    assert sorted(row["uuid"] for row in result["result"]["gpus"]) == T4[1:]
    # Values that the kubelet did not report come from the API.
    assert reasons(result) == {
        "GPU-t0": "in use by team/notebook",
        "GPU-a0": "in use by team/train",
        "GPU-a1": "in use by team/train",
    }
    assert "team/train" in lab.cluster.pods


def test_gpus_of_claims_are_skipped_and_named(lab: Lab) -> None:
    lab.cluster.pods["team/train"] = dra_objects.pod("train", dra_objects.by_name("c"), node="gpu2")
    devices = (dra_objects.result("gpu-0", node="gpu2"), dra_objects.result("gpu-1", node="gpu2"))
    lab.cluster.objects[dra_objects.CLAIMS] = {"items": [dra_objects.claim("c", *devices, pods=("train",))]}
    assert reasons(lab.measure()) == {"GPU-a0": "in use by team/train", "GPU-a1": "in use by team/train"}


def isolated(node: FakeNode) -> None:
    node.metadata = {"annotations": {"gpulab.io/gpu-isolation": json.dumps({"failure": "Xid 79", "policy": "taint"})}}


def shared(node: FakeNode) -> None:
    node.labels = {"nvidia.com/gpu.sharing-strategy": "time-slicing"}


def replicated(node: FakeNode) -> None:
    node.allocatable = 8


def not_ready(node: FakeNode) -> None:
    node.ready = False


def pascal(node: FakeNode) -> None:
    node.labels = {"nvidia.com/gpu.compute.major": "6", "nvidia.com/gpu.compute.minor": "1"}


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
def test_skipped_nodes_are_named(lab: Lab, change: Callable[[FakeNode], None], reason: str) -> None:
    change(lab.cluster.nodes["gpu2"])
    result = lab.measure()
    assert reasons(result) == {"GPU-a0": reason, "GPU-a1": reason}
    assert f"gpu2 GPU 1: left out, {reason}" in result["summary"]


def test_a_node_is_measured_with_an_image_that_runs_on_its_gpus(lab: Lab) -> None:
    new, old = (f"docker.io/pytorch/pytorch:2.9.1-cuda{cuda}-cudnn9-runtime" for cuda in ("12.8", "12.6"))
    pascal(lab.cluster.nodes["gpu2"])
    used: dict[str, set[str]] = {"gpu1": set(), "gpu2": set()}

    def note(gpu: str) -> str:
        for pod in lab.cluster.pods.values():
            used[pod["spec"]["nodeName"]].add(pod["spec"]["containers"][0]["image"])
        return report(gpu)

    lab.cluster.benchmark = note
    assert lab.measure(images=[new, old])["result"]["left_out"] == []
    assert used == {"gpu1": {new}, "gpu2": {old}}
    reason = f"{new} has no kernels for the GPUs of gpu2 (compute capability 6.1)"
    assert reasons(lab.measure(images=[new])) == {"GPU-a0": reason, "GPU-a1": reason}


def test_a_cordoned_node_is_skipped(lab: Lab) -> None:
    lab.cluster.nodes["gpu2"].cordoned = True
    assert set(reasons(lab.measure()).values()) == {"the node is cordoned"}


def test_partitioned_and_unresponsive_gpus_are_skipped(lab: Lab) -> None:
    lab.hosts[2]["gpus"][0]["mig"] = {"current": "Enabled", "devices": []}
    lab.hosts[1]["gpus"][0]["mig"] = {"current": "Disabled", "devices": [{"uuid": "MIG-1"}]}
    lab.hosts[2]["gpus"][1]["uuid"] = None
    lab.cluster.nodes["gpu1"].given = T4[1:]
    lab.hosts.append({"name": "gpu3", "gpus": [lab.gpu(0, "GPU-x", MODEL, 40960)]})
    lab.hosts.append({"name": "cp1", "pci": 1, "complaint": "no driver"})
    result = lab.measure()
    assert reasons(result) == {
        "GPU-t0": "it is partitioned into MIG devices",
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


def test_a_slow_gpu_is_a_warning_and_not_a_failure(lab: Lab) -> None:
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


def test_a_gpu_that_two_pods_were_given_is_reported(lab: Lab) -> None:
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
        ({"gpus": 0, "uuid": "", "notes": ["no driver"]}, "nvidia-smi lists 0 GPUs in it instead of one; no driver"),
        ({"uuid": 7}, "it was given a GPU without a UUID, which is not one of the node's free GPUs"),
        ({"figures": {}}, "it reported no figures"),
        ({"figures": None, "notes": ["it was stopped after 60 s"]}, "it was stopped after 60 s"),
    ],
    ids=str,
)
def test_a_pod_without_figures_of_its_own_gpu_is_reported(lab: Lab, changes: dict[str, Any], reason: str) -> None:
    lab.cluster.benchmark = lambda uuid: report(uuid, **(changes if uuid == "GPU-a0" else {}))
    result = lab.measure()
    [failure] = result["result"]["failures"]
    assert (failure["node"], failure["pod"], failure["reason"]) == ("gpu2", "gpu-0-gpu2", reason)
    assert any(f"pod gpu-0-gpu2: {reason}" in line for line in result["summary"])
    assert "GPU-a1" in [row["uuid"] for row in result["result"]["gpus"]]
    assert lab.cluster.pods == {}


def test_a_pod_that_never_reports_is_a_failure_and_no_further_pod_starts_on_its_node(lab: Lab) -> None:
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


def test_a_pod_that_could_not_be_frozen_is_created_again(lab: Lab) -> None:
    lab.cluster.unable_to_freeze = 1
    result = lab.measure()
    assert len(result["result"]["gpus"]) == 5
    assert "Pod/gpu-0-gpu1-again" in lab.cluster.created


def test_leftovers_of_an_interrupted_run_are_removed_first(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_namespace, "_SILENCE", 0)
    lab.measure(timeout=1)
    owner = {**OWNER, "app.kubernetes.io/part-of": "gpu-benchmark"}
    lab.cluster.namespaces[NAMESPACE] = {"metadata": {"name": NAMESPACE, "uid": "u", "labels": owner}}
    lab.cluster.pods[f"{NAMESPACE}/gpu-0-gpu1"] = {
        **lab.cluster.user_pod("x", "gpu1"),
        "metadata": {"name": "gpu-0-gpu1", "namespace": NAMESPACE},
    }
    del lab.cluster.pods["team/x"]
    # The kubelet's record still lists it.
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
def test_a_benchmark_does_not_delete_an_unmanaged_namespace(lab: Lab, labels: dict[str, str], missing: str) -> None:
    lab.cluster.namespaces[NAMESPACE] = {"metadata": {"name": NAMESPACE, "uid": "u", "labels": labels}}
    result = lab.measure()
    assert result["failed"] and f"created for something else (no label {missing})" in result["msg"]
    assert "Choose another with gpu_benchmark_namespace." in result["msg"]
    assert lab.cluster.created == [] and NAMESPACE in lab.cluster.namespaces


def test_a_takeover_by_another_run_is_an_error(lab: Lab) -> None:
    lab.cluster.takeover = True
    result = lab.measure()
    assert "another run has taken over namespace gpulab-gpu-benchmark" in result["msg"]


def test_an_unreadable_report_is_reported_as_such(lab: Lab) -> None:
    lab.cluster.benchmark = lambda uuid: f"{MARK}{{" if uuid == "GPU-a0" else report(uuid)
    [failure] = lab.measure()["result"]["failures"]
    assert (failure["node"], failure["reason"]) == ("gpu2", "its report is not valid JSON")


def test_a_failure_names_the_gpu_if_it_is_known(lab: Lab) -> None:
    lab.cluster.benchmark = lambda uuid: report(uuid, **({"figures": {}} if uuid == "GPU-a1" else {}))
    result = lab.measure()
    [failure] = result["result"]["failures"]
    assert failure == {
        "node": "gpu2",
        "index": 1,
        "uuid": "GPU-a1",
        "name": MODEL,
        "memory_total_mib": 40960,
        "pod": "gpu-1-gpu2",
        "reason": "it reported no figures",
        "measured": result["result"]["measured"],
    }
    assert "gpu2 GPU 1: pod gpu-1-gpu2: it reported no figures" in result["summary"]
    # No other GPU of the same model was measured.
    assert {row["uuid"]: row["peers"] for row in result["result"]["gpus"]}["GPU-a0"] == 0
    assert result["summary"][-1] == "Note: compared with no peers: gpu2 GPU 0."
    assert result["result"]["nodes"] == ["cp1", "gpu1", "gpu2"]


def test_a_gpu_that_the_driver_lost_is_named_and_its_node_is_not_shared(lab: Lab) -> None:
    lab.hosts[1]["gpus"] = lab.hosts[1]["gpus"][:2]
    lab.cluster.nodes["gpu1"].given = T4[:2]
    result = lab.measure()
    assert reasons(result) == {"": "nvidia-smi lists only 2 of the 3 GPUs on the PCI bus"}
    assert {"GPU-t0", "GPU-t1"} <= {row["uuid"] for row in result["result"]["gpus"]}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"timeout": 89}, "timeout must be 90 to 86400 seconds, not 89"),
        ({"timeout": 86401}, "timeout must be 90 to 86400 seconds, not 86401"),
        ({"namespace": "Bad_Name"}, "namespace 'Bad_Name' must consist of at most 63 lower-case letters"),
        ({"namespace": "a/b"}, "namespace 'a/b' must consist of"),
        ({"namespace": ""}, "namespace '' must consist of"),
    ],
    ids=str,
)
def test_settings_without_any_measurement_are_refused(
    lab: Lab, run_module: Callable[..., dict[str, Any]], given: dict[str, Any], message: str
) -> None:
    own = {"kubeconfig": str(lab.kubeconfig), "nodes": lab.hosts, "images": ["torch:1"], "script": "print()"}
    result = run_module("gpu_benchmark", {**own, **given})
    assert result["failed"] and message in result["msg"] and result["msg"].endswith("Nothing was changed.")
    assert lab.cluster.created == []


def unschedulable(lab: Lab, message: str) -> None:
    """Let the scheduler refuse the pods for gpu2, immediately and permanently."""
    start = lab.cluster.start

    def refuse(pod: dict[str, Any]) -> None:
        start(pod)
        if pod["metadata"]["name"].endswith("gpu2"):
            del pod["spec"]["nodeName"], pod["gpu"]
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            pod["status"] = {"phase": "Pending", "conditions": [condition]}

    lab.cluster.start = refuse


@pytest.mark.parametrize("message", ["1 Too many pods.", "1 Insufficient nvidia.com/gpu."])
def test_an_unschedulable_pod_is_reported_with_the_schedulers_message(lab: Lab, message: str) -> None:
    unschedulable(lab, f"0/3 nodes are available: {message}")
    result = lab.measure(timeout=1)
    [failure] = result["result"]["failures"]
    assert failure["reason"].startswith(f"Unschedulable: 0/3 nodes are available: {message}")
    assert reasons(result) == dict.fromkeys(A100, "no pod was given it; see the failures on gpu2")


def test_a_gpu_that_another_pod_took_in_the_meantime_is_skipped(lab: Lab) -> None:
    lab.hosts = lab.hosts[2:]
    snatch = lab.cluster.user_pod("snatch", "gpu2", gpus=2)
    lab.cluster.snatch = lab.cluster.pods.pop("team/snatch")
    result = lab.measure(timeout=1)
    assert (snatch["metadata"]["name"], result["result"]["failures"]) == ("snatch", [])
    assert reasons(result) == dict.fromkeys(A100, "taken in the meantime by team/snatch")


def fail_requests(
    monkeypatch: pytest.MonkeyPatch, method: str, wanted: Callable[[str, int], bool], status: int = 500
) -> None:
    """Let the API refuse the requests that ``wanted`` selects by path and by the number of requests to it."""
    original, counts = getattr(fake_cluster._Handler, method), Counter[str]()

    def handle(self: Any) -> None:
        path = self.path.partition("?")[0]
        counts[path] += 1
        if wanted(path, counts[path]):
            if self.command == "POST":
                self._body()
            self._answer(status, {"message": "etcdserver: leader changed"})
        else:
            original(self)

    monkeypatch.setattr(fake_cluster._Handler, method, handle)


def test_a_short_api_failure_loses_no_figures(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_requests(monkeypatch, "do_GET", lambda path, number: path.endswith(f"{NAMESPACE}/pods") and number in (2, 4))
    fail_requests(monkeypatch, "do_POST", lambda path, number: path.endswith("/pods") and number == 3)
    result = lab.measure(timeout=10)
    assert (len(result["result"]["gpus"]), result["result"]["failures"], lab.warnings) == (5, [], [])


def test_a_long_api_failure_only_loses_pending_figures(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []

    def report_once(uuid: str) -> str:
        reported.append(uuid)
        return report(uuid)

    fail_requests(monkeypatch, "do_GET", lambda path, _number: len(reported) == 2 and not path.endswith("/log"))
    lab.cluster.benchmark = report_once
    result = lab.measure(timeout=30)
    assert [row["uuid"] for row in result["result"]["gpus"]] == ["GPU-t0", "GPU-a0"]
    assert {each["node"] for each in result["result"]["failures"]} == {"gpu1", "gpu2"}
    assert all("leader changed" in each["reason"] for each in result["result"]["failures"])
    [warning] = lab.warnings
    assert warning.startswith(f"Namespace {NAMESPACE} could not be removed.") and "leader changed" in warning


def test_a_refused_request_only_loses_the_figures_of_its_node(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    # One pod for each node, and then the next pod.
    fail_requests(monkeypatch, "do_POST", lambda path, number: path.endswith("/pods") and number == 3, 422)
    result = lab.measure()
    [failure] = result["result"]["failures"]
    assert failure["reason"] == (
        f"Error while asking the API (POST /api/v1/namespaces/{NAMESPACE}/pods): etcdserver: leader changed"
    )
    assert len(result["result"]["gpus"]) >= 3 and set(reasons(result).values()) == {
        f"no pod was given it; see the failures on {failure['node']}"
    }


def test_figures_are_kept_if_the_cleanup_fails(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_requests(monkeypatch, "do_DELETE", lambda _path, _number: True)
    result = lab.measure()
    assert (result["failed"], len(result["result"]["gpus"])) == (False, 5)
    assert "could not be removed" in lab.warnings[0]


def test_pods_that_have_not_reported_at_the_end_are_failures(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check may take so long that the time of a pod ends without another check."""
    monkeypatch.setattr(run, "_LOG_GRACE", 0)
    lab.hosts, lab.cluster.benchmark = lab.hosts[2:], lambda _uuid: time.sleep(1.2) or ""  # type: ignore[func-returns-value]
    monkeypatch.setattr(run.Benchmark, "_stop", lambda *_given: None)
    result = lab.measure(timeout=1)
    [failure] = result["result"]["failures"]
    assert failure["reason"].startswith("it has not reported after ") and failure["pod"] == "gpu-0-gpu2"
    assert set(reasons(result).values()) == {"no pod was given it; see the failures on gpu2"}


def test_logs_are_read_once_and_only_on_nodes_that_respond(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any]] = []
    log = own_namespace.OwnNamespace.log

    def recorded(self: Any, pod: str, container: str, patience: float | None = None, **query: str) -> str:
        asked.append((pod, patience))
        return log(self, pod, container, patience, **query)

    monkeypatch.setattr(own_namespace.OwnNamespace, "log", recorded)
    start = lab.cluster.start

    def lose(pod: dict[str, Any]) -> None:
        start(pod)
        if pod["spec"]["nodeName"] == "gpu2":
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    monkeypatch.setattr(lab.cluster, "start", lose)
    result = lab.measure(timeout=1)
    assert {pod for pod, _patience in asked} == {"gpu-0-gpu1", "gpu-1-gpu1", "gpu-2-gpu1"}
    assert {patience for _pod, patience in asked} == {10}
    [failure] = result["result"]["failures"]
    assert failure["reason"] == "it has not reported (Running) after 1 s (gpu_benchmark_timeout)"
