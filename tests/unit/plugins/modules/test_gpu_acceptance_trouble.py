# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_acceptance with a small API server: how it reports problems."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from acceptance_lab import A100, MODEL, T4, Lab, causes, states, warnings
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.problems import REMEDIES
from fake_cluster import FakeCluster, FakeNode

OWNER = {"app.kubernetes.io/managed-by": "gpulab.kubernetes"}


@pytest.fixture
def lab(run_module: Callable[..., dict[str, Any]], tmp_path: Path) -> Iterator[Lab]:
    cluster = FakeCluster(FakeNode("cp1"), FakeNode("gpu1", T4), FakeNode("gpu2", A100, MODEL))
    with ExitStack() as stack:
        yield Lab(run_module, stack.enter_context(cluster.serve(tmp_path)), cluster)


def test_missing_allocatable_gpus_are_never_ignored(lab: Lab) -> None:
    lab.node("gpu1").allocatable = 0
    result = lab.verify()
    assert "0 of 3 GPUs are allocatable" in causes(result, "gpu1")[0]
    assert states(result, "gpu1") == dict.fromkeys(T4, "missing")


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("pull_error", "manifest unknown", "ImagePullBackOff: image check:1 can't be pulled: manifest unknown"),
        ("check_fails", True, "container check failed: exit status 1: Test FAILED"),
        ("extra_gpu", "GPU-t9", "requested 1 GPU but saw 2"),
    ],
)
def test_each_missing_gpu_has_a_reason(lab: Lab, attribute: str, value: Any, said: str) -> None:
    setattr(lab.cluster, attribute, value)
    result = lab.verify()
    assert any(said in cause for cause in causes(result, "gpu1")), causes(result, "gpu1")
    assert result["report"]["totals"]["proven"] == 0
    assert result["inconclusive"] is (attribute == "pull_error")
    missing = {problem["gpu"] for problem in result["report"]["problems"] if problem["host"] == "gpu2"}
    assert missing >= set(A100)


def test_the_same_gpu_in_two_pods_is_verified_once(lab: Lab) -> None:
    lab.node("gpu2").given = ["GPU-a0"]
    result = lab.verify()
    assert states(result, "gpu2") == {"GPU-a0": "proven", "GPU-a1": "missing"}
    assert any("were given the same GPU" in cause for cause in causes(result, "gpu2"))


def test_a_gpu_that_the_host_does_not_have_is_named(lab: Lab) -> None:
    lab.node("gpu2").given = ["GPU-a0", "GPU-other"]
    result = lab.verify()
    assert {
        "kind": "gpu_foreign",
        "host": "gpu2",
        "gpu": "GPU-other",
        "cause": "pod gpu-1-gpu2 reported a GPU that the host does not have",
        "where": "",
        "why": "",
        "do": REMEDIES["gpu_foreign"],
    } in result["report"]["problems"]


def test_a_pod_that_sees_gpus_without_a_request_is_a_problem(lab: Lab) -> None:
    lab.node("gpu1").leaks = ["/dev/nvidia0", "GPU 0: Tesla T4 (UUID: GPU-t0)"]
    result = lab.verify()
    assert any("a pod that requested no GPUs sees /dev/nvidia0" in cause for cause in causes(result, "gpu1"))
    assert result["report"]["isolation"] == {"gpu1": False, "gpu2": True}


def test_with_an_unmanaged_device_plugin_leaks_and_labels_are_not_a_problem(lab: Lab) -> None:
    lab.node("gpu1").leaks = ["/dev/nvidia0"]
    lab.node("gpu1").labels = {}
    lab.hosts[1]["own_plugin"] = False
    result = lab.verify()
    assert result["report"]["problems"] == []
    assert result["report"]["isolation"] == {"gpu1": False, "gpu2": True}
    assert "Isolation: a pod that requests no GPUs sees some on gpu1" in result["summary"]
    assert lab.verify()["changed"] is False


def test_a_log_may_arrive_after_its_pod_has_ended(lab: Lab) -> None:
    lab.cluster.late_logs = 2
    result = lab.verify()
    assert result["report"]["problems"] == []
    assert result["report"]["isolation"] == {"gpu1": True, "gpu2": True}


def test_a_pod_that_could_not_be_frozen_at_its_start_is_created_again(lab: Lab) -> None:
    lab.cluster.unable_to_freeze = 2
    result = lab.verify()
    assert result["report"]["problems"] == []
    assert sum(name.endswith("-again") for name in lab.cluster.created) == 2


def test_a_node_on_which_no_pod_starts_is_a_problem(lab: Lab) -> None:
    lab.cluster.unable_to_freeze = 1000
    result = lab.verify(timeout=20)
    assert any("StartError: failed to create containerd task" in cause for cause in causes(result, "gpu1"))
    assert not any(name.endswith("-again-again") for name in lab.cluster.created)


def test_wrong_labels_are_a_problem(lab: Lab) -> None:
    lab.node("gpu1").labels = {}
    lab.node("gpu2").labels = {**lab.node("gpu2").body()["metadata"]["labels"], "nvidia.com/gpu.count": "1"}
    result = lab.verify()
    assert any("GPU feature discovery has not labeled it" in cause for cause in causes(result, "gpu1"))
    assert causes(result, "gpu2") == ["label nvidia.com/gpu.count is 1, nvidia-smi has 2"]


def test_a_broken_connection_is_reported_with_both_nodes(lab: Lab) -> None:
    lab.cluster.deaf = {("gpu1", "gpu2")}
    result = lab.verify(timeout=1)
    [cause] = causes(result, "gpu1")
    assert "can't reach" in cause and "on gpu2: dial tcp: i/o timeout" in cause
    assert {"from": "gpu1", "to": "gpu2", "ok": False} in result["report"]["network"]["pod_to_pod"]
    assert result["report"]["totals"]["proven"] == 5


def test_the_record_of_a_deleted_pod_does_not_explain_a_missing_gpu(lab: Lab) -> None:
    lab.hosts[1]["held"] = {"GPU-t1": "team/gone"}
    lab.cluster.check_fails = True
    assert states(lab.verify(), "gpu1") == dict.fromkeys(T4, "missing")


def test_a_response_of_another_pod_does_not_count(lab: Lab) -> None:
    lab.cluster.answers_for_all = "network-gpu1"
    result = lab.verify(timeout=1)
    assert any("network-gpu1 answered instead of network-gpu2" in cause for cause in causes(result, "cp1"))


def test_a_dns_failure_is_distinguished_from_a_service_failure(lab: Lab) -> None:
    lab.cluster.no_dns = True
    network = lab.verify(timeout=1)["report"]["network"]
    assert network["service"] is True
    assert network["dns"] is False
    assert "no such host" in network["problems"][0]["cause"]


def test_problems_found_on_the_host_are_reported_too(lab: Lab) -> None:
    lab.hosts[1].update(expected=4, pci=3, state="driver_not_loaded", complaint="the driver is not loaded", gpus=[])
    result = lab.verify()
    told = "\n".join(causes(result, "gpu1"))
    assert "nvidia-smi: the driver is not loaded" in told
    assert "3 of 4 expected GPUs are on the PCI bus" in told
    assert result["report"]["totals"]["gpus"] == 6


def test_a_node_that_is_down_or_missing_does_not_delay_the_others(lab: Lab) -> None:
    lab.node("gpu1").ready = False
    del lab.cluster.nodes["cp1"]
    result = lab.verify()
    assert "the node is not ready: kubelet stopped posting" in causes(result, "gpu1")
    assert causes(result, "cp1") == ["the cluster has no node of this name: it has not joined, or was deleted"]
    assert states(result, "gpu2") == dict.fromkeys(A100, "proven")


def test_a_gpu_that_the_driver_has_lost_is_named_from_the_earlier_report(lab: Lab) -> None:
    lab.verify()
    lab.hosts[1].update(gpus=lab.hosts[1]["gpus"][:2], state="degraded", complaint="GPU is lost")
    lab.node("gpu1").allocatable = 2
    result = lab.verify()
    assert states(result, "gpu1") == {"GPU-t0": "proven", "GPU-t1": "proven", "GPU-t2": "missing"}
    assert "gpu1: GPU-t2: nvidia-smi no longer lists it" in result["problems"]
    assert "gpu1: nvidia-smi: GPU is lost" in result["problems"]
    assert states(lab.verify(), "gpu1")["GPU-t2"] == "missing"


def lose(lab: Lab, *lost: str) -> None:
    """Take GPUs of gpu1 off its bus."""
    left = [uuid for uuid in lab.node("gpu1").gpus if uuid not in lost]
    lab.node("gpu1").gpus = left
    lab.hosts[1].update(gpus=[{"uuid": uuid, "name": "Tesla T4"} for uuid in left], pci=len(left))


FEWER = "1 GPU fewer than at the last verification: GPU-t2 (gpu1). Check lspci"


def test_a_missing_gpu_is_a_warning_until_the_inventory_is_changed(lab: Lab) -> None:
    assert not warnings(lab.verify())
    lose(lab, "GPU-t2")
    for more in ({}, {}, {"force": True}, {"verify": False}):
        result = lab.verify(**more)
        assert result["problems"] == [] and result["report"]["totals"]["gpus"] == 4
        assert [warning.startswith(FEWER) for warning in warnings(result)] == [True]
        [told] = result["report"]["warnings"]
        assert (told["kind"], told["host"], told["gpu"]) == ("gpu_fewer", "gpu1", "GPU-t2")
        assert told["where"] == "cluster_expected_gpus" and "cluster_expected_gpus" in told["do"]
    assert not lab.verify()["changed"]
    lab.hosts[1]["expected"] = 2
    assert lab.verify(check=True)["changed"]
    accepted = lab.verify()
    assert (accepted["changed"], accepted["kept"], accepted["report"]["warnings"]) == (True, True, [])
    assert not lab.verify()["changed"]
    del lab.hosts[1]["expected"]
    assert lab.verify()["report"]["warnings"] == []


def test_if_all_gpus_of_a_host_are_gone_they_are_named(lab: Lab) -> None:
    lab.verify()
    lose(lab, *T4)
    result = lab.verify()
    assert result["problems"] == []
    assert warnings(result)[0].startswith(f"3 GPUs fewer than at the last verification: {', '.join(T4)} (gpu1). ")


def test_a_replaced_gpu_does_not_count_as_missing(lab: Lab) -> None:
    lab.verify()
    lose(lab, "GPU-t1", "GPU-t2")
    lab.node("gpu1").gpus.append("GPU-new")
    lab.hosts[1].update(pci=2)
    lab.hosts[1]["gpus"].append({"uuid": "GPU-new", "name": "Tesla T4"})
    for _turn in range(2):
        [warning] = warnings(lab.verify())
        assert warning.startswith("1 GPU fewer than at the last verification, 1 GPU replaced: GPU-t1, GPU-t2 (gpu1). ")
    lab.node("gpu1").gpus.append("GPU-newer")
    lab.hosts[1].update(pci=3)
    lab.hosts[1]["gpus"].append({"uuid": "GPU-newer", "name": "Tesla T4"})
    assert lab.verify()["report"]["warnings"] == []


def test_an_unreachable_host_has_no_missing_gpus_and_keeps_its_record(lab: Lab) -> None:
    lab.verify()
    there = lab.hosts[1]
    lab.hosts[1] = {"name": "gpu1", "state": "silent", "complaint": "did not answer"}
    assert lab.verify()["report"]["warnings"] == []
    lab.hosts[1] = there
    lose(lab, "GPU-t0")
    assert [each["gpu"] for each in lab.verify()["report"]["warnings"]] == ["GPU-t0"]


def test_the_record_of_a_node_is_deleted_with_it(lab: Lab) -> None:
    lab.verify()
    lab.node("gpu1").metadata = {"uid": "joined again"}
    lose(lab, "GPU-t2")
    assert lab.verify()["report"]["warnings"] == []


def test_a_gpu_that_fell_off_the_bus_is_missing_even_without_an_earlier_report(lab: Lab) -> None:
    lost = {"uuid": None, "name": None, "index": 2, "pci_bus_id": "00000000:30:00.0", "problems": ["GPU is lost"]}
    lab.hosts[1].update(gpus=[*lab.hosts[1]["gpus"][:2], lost], pci=2, state="degraded", complaint="GPU is lost")
    lab.node("gpu1").allocatable = 2
    result = lab.verify()
    assert result["report"]["hosts"]["gpu1"]["gpus"]["expected"] == 3
    assert any(problem.startswith("gpu1: 2 of 3 GPUs are allocatable") for problem in result["problems"])


def test_a_host_that_could_not_be_queried_keeps_its_record(lab: Lab) -> None:
    lab.verify()
    lab.hosts[1] = {"name": "gpu1", "state": "silent", "complaint": "did not answer"}
    result = lab.verify()
    assert states(result, "gpu1") == dict.fromkeys(T4, "missing")
    assert set(causes(result, "gpu1")) == {"did not answer"}
    assert result["report"]["totals"] == {"gpus": 5, "proven": 2, "in_use": 0}


def test_a_simulated_check_is_reported_as_simulated(lab: Lab) -> None:
    assert lab.verify()["report"]["simulated"] is False
    lab.cluster.check_output = "[simulated] no GPU computes here\nTest PASSED"
    result = lab.verify(force=True)
    assert result["report"]["simulated"] is True
    assert any("simulated" in line for line in result["summary"])
    assert result["report"]["checks"] == ["[simulated] no GPU computes here", "Test PASSED"]
    assert "Output of each check: [simulated] no GPU computes here / Test PASSED" in result["summary"]


def test_a_run_waits_for_the_end_of_another_one(lab: Lab) -> None:
    annotations = {"gpulab.io/holder": "bob@ci", "gpulab.io/renewed": "1"}
    labels = {**OWNER, "app.kubernetes.io/part-of": "acceptance"}
    metadata = {"name": "gpulab-acceptance", "uid": "old", "labels": labels, "annotations": annotations}
    lab.cluster.namespaces["gpulab-acceptance"] = {"metadata": metadata}
    # The other run ends while this one waits.
    ends = threading.Timer(2, lab.cluster.namespaces.pop, ["gpulab-acceptance"])
    ends.start()
    result = lab.verify(holder="alice@laptop")
    ends.join()
    assert result["problems"] == [] and result["report"]["totals"]["proven"] == 5


@pytest.mark.parametrize("labels", [{}, OWNER, {**OWNER, "app.kubernetes.io/part-of": "gpu-benchmark"}], ids=str)
def test_a_verification_does_not_delete_an_unmanaged_namespace(lab: Lab, labels: dict[str, str]) -> None:
    metadata = {"name": "gpulab-acceptance", "uid": "theirs", "labels": labels}
    lab.cluster.namespaces["gpulab-acceptance"] = {"metadata": metadata}
    result = lab.verify()
    assert result["failed"]
    assert "was created for something else" in result["msg"]
    assert "gpulab-acceptance" in lab.cluster.namespaces


def test_a_run_that_was_replaced_does_not_disturb_the_other(lab: Lab) -> None:
    lab.cluster.takeover = True
    result = lab.verify()
    assert result["failed"] and result["inconclusive"]
    assert "another run has taken over" in result["msg"]
    assert "gpulab-acceptance" in lab.cluster.namespaces
    assert lab.cluster.objects.keys() == {"/api/v1/namespaces/gpulab-acceptance/services/network"}


def test_an_unreachable_api_is_an_error_with_a_remedy(lab: Lab, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", (tmp_path / "kubeconfig").read_text()))
    result = lab.verify(kubeconfig=str(other))
    assert result["failed"] and result["inconclusive"]
    assert "Error while asking the API" in result["msg"]
    assert "cluster_api_delegate" in result["msg"]
