# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verification of shared and partitioned GPUs, and its verdict."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.sharing import gpu_sharing
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance import pods as manifests
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.hosts import read_hosts
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.run import PodProof
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.target import Gpu, label_problem, targets
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.verdict import host_entry
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.dra import NO_CLAIMS

A100 = "NVIDIA A100-SXM4-40GB"
SMALL, LARGE = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
TIME_SLICING = gpu_sharing({"mode": "time_slicing", "replicas": 3, "rename": True}, 2)
MIXED = gpu_sharing({"mode": "mig", "layout": {0: ["1g.5gb", "3g.20gb"]}}, 2, [["1g.5gb", "3g.20gb"], []])
SINGLE = gpu_sharing({"mode": "mig", "layout": "all-3g.20gb", "strategy": "single"}, 1, [["3g.20gb", "3g.20gb"]])


def gpu(index: int, *profiles: str) -> dict[str, Any]:
    parts = [{"uuid": f"MIG-{index}-{place}", "profile": profile} for place, profile in enumerate(profiles)]
    return {"uuid": f"GPU-{index}", "name": A100, "mig": {"devices": parts}}


def target(
    sharing: dict[str, Any],
    gpus: list[dict[str, Any]],
    offered: dict[str, int] | None = None,
    labels: dict[str, str] | None = None,
    **more: Any,
) -> Any:
    host = {
        "name": "gpu1",
        "gpus": gpus,
        "pci": len(gpus),
        "expected": None,
        "state": "ok",
        "complaint": "",
        "driver": "580.1",
        "toolkit": "",
        "held": {},
        "containerd": {},
        "sharing": sharing,
        **more,
    }
    amounts = {name: str(amount) for name, amount in (sharing["amounts"] if offered is None else offered).items()}
    count = "2" if labels is None else labels["count"]
    node = {
        "metadata": {
            "name": "gpu1",
            "uid": "u",
            "labels": {
                "nvidia.com/gpu.product": f"{A100.replace(' ', '-')}-SHARED",
                "nvidia.com/gpu.count": count,
                "nvidia.com/cuda.driver-version.full": "580.1",
            },
        },
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return targets(read_hosts([host]), [node], [], NO_CLAIMS, "proof")[0]


def proofs(*given: tuple[str, str]) -> list[PodProof]:
    return [
        PodProof(f"pod-{number}", "gpu1", "gpu", done=True, gpus=[Gpu(uuid, "")], output="PASSED", resource=resource)
        for number, (resource, uuid) in enumerate(given)
    ]


SHARED = "nvidia.com/gpu.shared"


@pytest.mark.parametrize(
    ("sharing", "gpus", "wanted"),
    [
        (TIME_SLICING, [gpu(0), gpu(1)], {SHARED: 6}),
        (MIXED, [gpu(0, "1g.5gb", "3g.20gb"), gpu(1)], {"nvidia.com/gpu": 1, SMALL: 1, LARGE: 1}),
        (SINGLE, [gpu(0, "3g.20gb", "3g.20gb")], {"nvidia.com/gpu": 2}),
    ],
)
def test_each_share_and_each_mig_device_needs_a_pod(
    sharing: dict[str, Any], gpus: list[dict[str, Any]], wanted: dict[str, int]
) -> None:
    assert target(sharing, gpus).unheld == wanted


def test_each_mig_device_is_verified_by_its_own_pod() -> None:
    found = target(MIXED, [gpu(0, "1g.5gb", "3g.20gb"), gpu(1)])
    entry = host_entry(found, proofs((SMALL, "MIG-0-0"), (LARGE, "MIG-0-1"), ("nvidia.com/gpu", "GPU-1")), "check:1")
    assert entry["problems"] == []
    assert [(device["name"], device["state"]) for device in entry["devices"]] == [
        (f"{A100} MIG 1g.5gb", "proven"),
        (f"{A100} MIG 3g.20gb", "proven"),
        (A100, "proven"),
    ]
    assert (entry["gpus"]["expected"], entry["gpus"]["nvidia_smi"], entry["gpus"]["proven"]) == (3, 2, 3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([(SMALL, "MIG-0-0"), ("nvidia.com/gpu", "GPU-1")], "no pod was given this GPU"),
        ([(SMALL, "MIG-0-0"), (LARGE, "MIG-0-0")], "pods pod-0 and pod-1 were given the same GPU"),
        ([(SMALL, "MIG-0-1")], f"pod pod-0 requested {SMALL} but was given a {LARGE}"),
        ([(SMALL, "MIG-9-9")], "reported a GPU that the host does not have"),
        ([(SMALL, "GPU-0")], "reported a GPU that the host does not have"),
    ],
)
def test_a_mig_device_without_a_pod_or_with_a_wrong_one_is_reported(given: list[tuple[str, str]], words: str) -> None:
    found = target(MIXED, [gpu(0, "1g.5gb", "3g.20gb"), gpu(1)])
    causes = [problem["cause"] for problem in host_entry(found, proofs(*given), "check:1")["problems"]]
    assert any(words in cause for cause in causes), causes


def test_a_shared_gpu_is_verified_by_as_many_pods_as_may_share_it() -> None:
    found = target(TIME_SLICING, [gpu(0), gpu(1)])
    good = [(SHARED, "GPU-0")] * 3 + [(SHARED, "GPU-1")] * 3
    entry = host_entry(found, proofs(*good), "check:1")
    assert (entry["problems"], entry["gpus"]["proven"], entry["gpus"]["pods"]) == ([], 2, 6)
    [problem] = host_entry(found, proofs(*good, (SHARED, "GPU-1")), "check:1")["problems"]
    assert problem["cause"] == "pods pod-3, pod-4, pod-5 and pod-6 were given the same GPU"
    failed = proofs(*good[:5])
    failed.append(PodProof("pod-5", "gpu1", "gpu", done=True, trouble="container check failed", resource=SHARED))
    [problem] = host_entry(found, failed, "check:1")["problems"]
    assert problem["cause"] == "pod pod-5: container check failed"


def test_missing_and_surplus_resources_are_reported_by_name() -> None:
    found = target(MIXED, [gpu(0, "1g.5gb", "3g.20gb"), gpu(1)], {"nvidia.com/gpu": 2, LARGE: 1, SHARED: 4})
    causes = [problem["cause"] for problem in host_entry(found, [], "check:1")["problems"]]
    assert "2 of 1 GPUs are allocatable (capacity 2)" in causes
    assert f"0 of 1 {SMALL} are allocatable (capacity 0)" in causes
    assert f"4 of 0 {SHARED} are allocatable (capacity 4)" in causes


def test_a_wrong_partition_is_a_problem_of_the_host() -> None:
    found = target({**SINGLE, "complaint": "cut otherwise"}, [gpu(0, "3g.20gb", "3g.20gb")])
    given = proofs(("nvidia.com/gpu", "MIG-0-0"), ("nvidia.com/gpu", "MIG-0-1"))
    assert [problem["cause"] for problem in host_entry(found, given, "check:1")["problems"]] == ["cut otherwise"]


def test_with_the_single_strategy_labels_count_mig_devices_as_gpus() -> None:
    assert label_problem(target(SINGLE, [gpu(0, "3g.20gb", "3g.20gb")])) == ""
    assert "is 1, nvidia-smi has 2" in label_problem(
        target(SINGLE, [gpu(0, "3g.20gb", "3g.20gb")], labels={"count": "1"})
    )
    assert label_problem(target(TIME_SLICING, [gpu(0), gpu(1)])) == ""


def test_numbered_uuids_of_a_shared_gpu_in_the_kubelets_record_are_recognized() -> None:
    found = target(TIME_SLICING, [gpu(0), gpu(1)], held={"GPU-0::2": "team/train"})
    assert found.host.held == {"GPU-0": "team/train"}


@pytest.mark.parametrize(
    ("log", "uuids"),
    [
        ("GPU-0, Tesla T4\nGPU 0: Tesla T4 (UUID: GPU-0)\nend", ["GPU-0"]),
        (
            f"GPU-0, {A100}\nGPU 0: {A100} (UUID: GPU-0)\n  MIG 1g.5gb      Device  0: (UUID: MIG-4a-1)\nend",
            ["MIG-4a-1"],
        ),
        (f"GPU-0, {A100}\n  MIG 1g.5gb+me   Device  0: (UUID: MIG-GPU-0/7/0)", ["MIG-GPU-0/7/0"]),
    ],
)
def test_a_pod_with_a_mig_device_does_not_count_for_the_whole_gpu(log: str, uuids: list[str]) -> None:
    assert [gpu.uuid for gpu in manifests.reported(log)] == uuids
