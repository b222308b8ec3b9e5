# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster import objects
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.dra import NO_CLAIMS

IMAGE = "nvcr.io/nvidia/check:1"


def container(gpus: int | None = None, **more: Any) -> dict[str, Any]:
    limits = {} if gpus is None else {"limits": {objects.GPU: str(gpus)}}
    return {"name": "c", "image": IMAGE, "resources": limits, **more}


def pod(*containers: Any, init: Any = (), node: str = "gpu1", name: str = "p", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": list(containers) or [container()], "initContainers": list(init), "nodeName": node},
        "status": status,
    }


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    state = {"state": {"waiting": {"reason": reason, "message": message}}}
    return {"phase": "Pending", "containerStatuses": [{"name": "c", "image": IMAGE, **state, **more}]}


def ended(**terminated: Any) -> dict[str, Any]:
    return {
        "phase": "Failed",
        "containerStatuses": [{"name": "c", "image": IMAGE, "state": {"terminated": terminated}}],
    }


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (pod(container()), 0),
        (pod(container(1), container(2)), 3),
        (pod(container(1), init=[container(1)]), 1),
        (pod(container(1), init=[container(4), container(2)]), 4),
        (pod(container(1), init=[container(1, restartPolicy="Always"), container(2)]), 3),
        (pod(container(2), init=[container(1, restartPolicy="Always")]), 3),
        (pod({"name": "c", "image": IMAGE, "resources": {"requests": {objects.GPU: "2"}}}), 2),
        (pod({"name": "c", "image": IMAGE, "resources": {"limits": {objects.GPU: "²"}}}), 0),
    ],
    ids=[
        "none",
        "sum",
        "check then hold",
        "greatest init",
        "sidecar before init",
        "sidecar",
        "request only",
        "no digit",
    ],
)
def test_gpus_of_a_pod_are_counted_like_the_scheduler_does(found: dict[str, Any], want: int) -> None:
    assert objects.requested(found) == want


def test_only_pods_on_a_node_that_have_not_ended_hold_gpus() -> None:
    pods = [
        pod(container(2), name="runs", phase="Running"),
        pod(container(1), name="starts", phase="Pending"),
        pod(container(1), name="done", phase="Succeeded"),
        pod(container(1), name="failed", phase="Failed"),
        pod(container(1), name="unbound", node="", phase="Pending"),
        pod(container(), name="no-gpu", phase="Running"),
        pod(container(1), name="other", node="gpu2", phase="Running"),
    ]
    assert objects.holders(pods, NO_CLAIMS) == {"gpu1": {"team/runs": 2, "team/starts": 1}, "gpu2": {"team/other": 1}}


UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 1 Insufficient nvidia.com/gpu.",
        }
    ],
}


@pytest.mark.parametrize(
    ("status", "text", "final"),
    [
        (
            waiting("ImagePullBackOff", "manifest unknown"),
            f"ImagePullBackOff: image {IMAGE} can't be pulled: manifest unknown",
            True,
        ),
        (
            waiting("ImagePullBackOff", f'Back-off pulling image "{IMAGE}": ErrImagePull: rpc error: not found'),
            f"ImagePullBackOff: image {IMAGE} can't be pulled: rpc error: not found",
            True,
        ),
        (waiting("ErrImagePull", "rpc error"), f"ErrImagePull: image {IMAGE} can't be pulled: rpc error", True),
        (waiting("InvalidImageName"), f"InvalidImageName: image {IMAGE} can't be pulled", True),
        (
            waiting("CreateContainerError", "unresolvable CDI devices"),
            "CreateContainerError: container c: unresolvable CDI devices",
            True,
        ),
        (
            waiting(
                "CrashLoopBackOff", lastState={"terminated": {"exitCode": 1, "reason": "Error", "message": "no NVML"}}
            ),
            "CrashLoopBackOff: container c keeps exiting: exit status 1: no NVML",
            True,
        ),
        (
            ended(exitCode=137, reason="OOMKilled"),
            "container c failed: OOMKilled: it exceeded its memory limit",
            True,
        ),
        (ended(exitCode=1, reason="Error"), "container c failed: exit status 1", True),
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed: no healthy devices"},
            "UnexpectedAdmissionError: Allocate failed: no healthy devices",
            True,
        ),
        (UNSCHEDULABLE, "Unschedulable: 0/3 nodes are available: 1 Insufficient nvidia.com/gpu.", True),
    ],
)
def test_pod_failures_are_reported_with_the_original_message(status: dict[str, Any], text: str, final: bool) -> None:
    assert objects.trouble(pod(**status)) == objects.Trouble(text, final)


def test_a_pod_that_is_being_created_is_reported_with_its_last_warning() -> None:
    events = [
        {"type": "Warning", "reason": "FailedMount", "message": "old", "lastTimestamp": "2026-01-01T00:00:00Z"},
        {"type": "Warning", "reason": "FailedCreatePodSandBox", "message": "no network", "lastTimestamp": "2026-01-02"},
        {"type": "Normal", "reason": "Scheduled", "message": "fine", "lastTimestamp": "2026-01-03"},
    ]
    found = pod(**waiting("ContainerCreating"))
    assert objects.trouble(found, events) == objects.Trouble("FailedCreatePodSandBox: no network")
    assert objects.trouble(found) is None


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_healthy_pod_has_no_problem(phase: str) -> None:
    warning = {"type": "Warning", "reason": "Unhealthy", "message": "not ready yet"}
    assert objects.trouble(pod(phase=phase), [warning]) is None


@pytest.mark.parametrize(("value", "want"), [("4", 4), ("0", 0), (None, 0), ("²", 0), ("٣", 0), ("-1", 0), (2, 2)])
def test_quantities_of_nodes_are_parsed(value: str | None, want: int) -> None:
    have = {} if value is None else {objects.GPU: value}
    assert objects.quantity({"metadata": {"name": "n"}, "status": {"allocatable": have}}, "allocatable") == want
    assert objects.quantity({"metadata": {"name": "n"}}, "capacity") == 0


def test_a_node_that_is_not_ready_has_a_reason() -> None:
    silent = {"metadata": {"name": "n"}, "status": {}}
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "KubeletNotReady",
        "message": "cni plugin not initialized",
    }
    ill = {"metadata": {"name": "n"}, "status": {"conditions": [condition]}}
    assert not objects.is_ready(silent)
    assert "kubelet has not reported" in objects.not_ready_reason(silent)
    assert "cni plugin not initialized" in objects.not_ready_reason(ill)
