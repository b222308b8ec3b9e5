# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance import network
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance import pods as manifests
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance import summary as words
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.target import (
    Gpu,
    Host,
    label_problem,
    product,
    still_connected,
    still_proven,
    targets,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.dra import NO_CLAIMS
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.objects import GPU, requested
from hypothesis import given
from hypothesis import strategies as some

GPUS = (Gpu("GPU-0", "Tesla T4"), Gpu("GPU-1", "Tesla T4"))
LABELS = {
    "nvidia.com/gpu.product": "Tesla-T4",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/cuda.driver-version.full": "580.1",
}
SETTINGS = manifests.Settings("proof", "check:1", "agnhost:1", 300)


def node(labels: dict[str, str] | None = None, ready: bool = True, allocatable: int = 2) -> dict[str, Any]:
    return {
        "metadata": {"name": "gpu1", "uid": "u", "labels": LABELS if labels is None else labels},
        "status": {
            "allocatable": {GPU: str(allocatable)},
            "capacity": {GPU: "2"},
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "nodeInfo": {"bootID": "b"},
        },
    }


def pod(name: str, namespace: str = "team") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": "gpu1", "containers": [{"resources": {"limits": {GPU: "1"}}}]},
        "status": {"phase": "Running"},
    }


def target(pods: Any = (), host: Host | None = None, **more: Any) -> Any:
    [found] = targets(
        [host or Host("gpu1", GPUS, 2, driver="580.1", physical=GPUS)], [node(**more)], pods, NO_CLAIMS, "proof"
    )
    return found


def test_free_gpus_are_those_that_no_pod_holds() -> None:
    assert target().unheld_total == 2
    assert target([pod("train")]).unheld_total == 1
    assert target([pod("a"), pod("b"), pod("c")]).unheld_total == 0
    assert target([pod("gpu-0-gpu1", "proof")]).unheld_total == 2


def earlier(found: Any, **more: Any) -> dict[str, Any]:
    devices = [{"uuid": gpu.uuid, "name": gpu.name, "state": "proven"} for gpu in GPUS]
    return {"fingerprint": found.fingerprint("check:1"), "devices": devices, "pods": 2, "problems": [], **more}


def test_an_earlier_verification_is_valid_while_its_conditions_are_unchanged() -> None:
    found = target()
    assert still_proven(found, earlier(found), "check:1")
    assert not still_proven(found, None, "check:1")
    assert not still_proven(found, earlier(found), "check:2")
    assert not still_proven(found, earlier(found, problems=["x"]), "check:1")
    assert not still_proven(target(ready=False), earlier(found), "check:1")
    assert not still_proven(target(allocatable=1), earlier(found), "check:1")
    ill = target(host=Host("gpu1", GPUS, 2, driver="580.1", state="degraded"))
    assert not still_proven(ill, earlier(found), "check:1")
    assert not still_proven(found, earlier(found, pods=1), "check:1")
    assert still_proven(target([pod("train")]), earlier(found, pods=1), "check:1")
    assert not still_proven(found, earlier(found, devices=[]), "check:1")


def test_an_earlier_network_check_is_valid_for_the_nodes_in_it() -> None:
    found = target()
    assert still_connected([found], {"nodes": [found.identity, "other"], "problems": []})
    assert not still_connected([found], {"nodes": ["other"], "problems": []})
    assert not still_connected([found], {"nodes": [found.identity], "problems": [{}]})
    assert not still_connected([found], {})


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (LABELS, ""),
        ({**LABELS, "nvidia.com/gpu.product": "Tesla-T4-SHARED"}, ""),
        ({}, "has no label nvidia.com/gpu.product, nvidia.com/gpu.count"),
        ({**LABELS, "nvidia.com/gpu.count": "1"}, "label nvidia.com/gpu.count is 1, nvidia-smi has 2"),
        ({**LABELS, "nvidia.com/gpu.product": "Tesla-T40"}, "is Tesla-T40, nvidia-smi has Tesla-T4"),
        ({**LABELS, "nvidia.com/cuda.driver-version.full": "570.1"}, "is 570.1, the host's driver is 580.1"),
    ],
)
def test_labels_must_match_the_host(labels: dict[str, str], said: str) -> None:
    assert said in label_problem(target(labels=labels))
    assert bool(said) == bool(label_problem(target(labels=labels)))


def test_a_host_without_gpus_needs_no_labels() -> None:
    assert label_problem(target(host=Host("gpu1"), labels={})) == ""


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Tesla T4", "Tesla-T4"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA RTX PRO 6000 (Blackwell)  Server", "NVIDIA-RTX-PRO-6000-Blackwell-Server"),
    ],
)
def test_product_labels_have_the_form_of_gpu_feature_discovery(name: str, label: str) -> None:
    assert product(name) == label


def test_a_gpu_pod_requests_one_gpu_for_all_its_containers() -> None:
    body = manifests.gpu_pod(SETTINGS, "gpu1", 0)
    assert requested(body) == 1
    [check] = body["spec"]["initContainers"]
    assert "command" not in check, "the check is the image's own command"


def test_the_verification_needs_no_privileges() -> None:
    for body in (
        manifests.gpu_pod(SETTINGS, "n", 0),
        manifests.isolation_pod(SETTINGS, "n"),
        manifests.network_pod(SETTINGS, "n"),
    ):
        spec = body["spec"]
        assert not {"hostNetwork", "hostPID", "runtimeClassName", "volumes"} & set(spec)
        assert not any("securityContext" in each for each in [*spec["containers"], *spec["initContainers"]])
    assert requested(manifests.isolation_pod(SETTINGS, "n")) == 0


LOG = "GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11, NVIDIA A100-SXM4-40GB\nacceptance: end of list\n"


def test_reports_are_read_from_pod_logs() -> None:
    assert manifests.ended(LOG)
    assert not manifests.ended(LOG.splitlines()[0])
    assert manifests.reported(LOG) == [Gpu("GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11", "NVIDIA A100-SXM4-40GB")]
    assert manifests.reported("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.") == []


def test_devices_visible_to_a_pod_without_a_gpu_are_detected() -> None:
    log = "/dev/nvidia0\nGPU 0: Tesla T4 (UUID: GPU-1)\nNo devices found.\nacceptance: end of list"
    assert manifests.leaked(log) == ["/dev/nvidia0", "GPU 0: Tesla T4 (UUID: GPU-1)"]
    assert manifests.leaked("/dev/nvidiactl\nacceptance: end of list") == []


@given(some.lists(some.text(min_size=1), unique=True, max_size=9))
def test_each_node_is_tested_as_sender_and_receiver(nodes: list[str]) -> None:
    found = network.pairs(nodes)
    assert len(found) == len(set(found))
    assert all(here != there for here, there in found)
    if len(nodes) > 1:
        assert {here for here, _there in found} == {there for _here, there in found} == set(nodes)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{"responses":["network-gpu1"]}', (True, "network-gpu1")),
        ('{"errors":["dial tcp: i/o timeout"]}', (False, "dial tcp: i/o timeout")),
        ("{}", (False, "no answer")),
        ("", (False, "no answer")),
        ("lookup network: no such host", (False, "lookup network: no such host")),
    ],
)
def test_the_result_of_a_connection_attempt_is_parsed(text: str, want: tuple[bool, str]) -> None:
    assert network.answer(text) == want


def test_problems_name_host_gpus_and_cause() -> None:
    found = [
        {"host": "gpu1", "gpu": "GPU-1", "cause": "no pod"},
        {"host": "gpu1", "gpu": "GPU-2", "cause": "no pod"},
        {"host": "gpu2", "gpu": "", "cause": "down"},
    ]
    assert words.problems({"problems": found}) == ["gpu1: GPU-1, GPU-2: no pod", "gpu2: down"]
