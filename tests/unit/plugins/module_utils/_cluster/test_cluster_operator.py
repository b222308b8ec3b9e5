# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.operator import missing
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.rollout import Seen

PLUGIN = "nvidia-device-plugin-daemonset"


def policy(
    state: str = "", error: str = "", name: str = "cluster-policy", ready: str = "", reason: str = "", created: str = ""
) -> dict[str, Any]:
    conditions = [{"type": "Error", "status": "True", "message": error}] if error else []
    if ready or reason:
        conditions.append({"type": "Ready", "status": str(bool(reason)), "reason": reason, "message": ready})
    status = {"status": {"state": state, "conditions": conditions}} if state or conditions else {}
    return {"metadata": {"name": name, "creationTimestamp": created}, **status}


def operand(name: str = PLUGIN, wanted: int = 2, available: int = 2, updated: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "generation": 1, "ownerReferences": [{"kind": "ClusterPolicy", "name": "c"}]},
        "spec": {"selector": {"matchLabels": {"app": name}}, **more},
        "status": {
            "desiredNumberScheduled": wanted,
            "numberAvailable": available,
            "updatedNumberScheduled": updated,
            "observedGeneration": 1,
        },
    }


def deployment(available: int = 1, replicas: int = 1, generation: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": "gpu-operator", "generation": generation},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "gpu-operator"}}},
        "status": {
            "replicas": replicas,
            "updatedReplicas": 1,
            "availableReplicas": available,
            "observedGeneration": 1,
        },
    }


def pod(
    app: str = PLUGIN, node: str = "gpu1", waiting: dict[str, str] | None = None, ready: bool = False
) -> dict[str, Any]:
    statuses = [{"name": "c", "image": "i", "state": {"waiting": waiting}}] if waiting else []
    status = {
        "phase": "Pending",
        "containerStatuses": statuses,
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }
    return {"metadata": {"name": f"{app}-1", "labels": {"app": app}}, "spec": {"nodeName": node}, "status": status}


def node(name: str = "gpu1", labelled: bool = True) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true"} if labelled else {}}}


def lease(holder: str) -> dict[str, Any]:
    return {"metadata": {"name": "53822513.nvidia.com"}, "spec": {"holderIdentity": holder}}


def look(policies: Sequence[dict[str, Any]] = (), daemonsets: Sequence[dict[str, Any]] = (), **more: Any) -> Seen:
    return Seen(policies=policies, daemonsets=daemonsets, **more)


LABEL = "the operator has not found its GPUs yet (label nvidia.com/gpu.present=true)"
NFD = {"metadata": {"name": "nfd-worker"}}
NOT_READY = "ClusterPolicy is not ready; states not ready: [state-device-plugin state-dcgm-exporter]"
PULL = {"reason": "ImagePullBackOff", "message": "not found"}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (look([policy("ready")]), []),
        (look([policy("ready")], [operand()]), []),
        (look([policy("ready")], [operand(wanted=0, available=0, updated=0)]), []),
        # Another application in the operator's namespace.
        (look([policy("ready")], [{**operand(available=0), "metadata": {"name": "nfd-worker"}}]), []),
        (look(), ["there is no ClusterPolicy cluster-policy"]),
        (
            look(deployments=[deployment(available=0)], pods=[pod("gpu-operator", "cp1", PULL)]),
            [
                "cp1: Deployment gpu-operator: ImagePullBackOff: image i can't be pulled: not found",
                "there is no ClusterPolicy cluster-policy",
            ],
        ),
        # The status of the former operator about its own operands.
        (
            look([policy("ready")], deployments=[deployment(replicas=2)]),
            ["Deployment gpu-operator is not available yet"],
        ),
        (
            look([policy("ready")], deployments=[deployment(generation=2)]),
            ["Deployment gpu-operator is not available yet"],
        ),
        (look([policy("ready")], deployments=[deployment()]), []),
        (look([policy()]), ["the ClusterPolicy cluster-policy has no state yet"]),
        # The operator serves the oldest policy, then the first by name, and does not write a status into others.
        (
            look(
                [policy(created="2026-11-22T10:00:00Z"), policy("ready", name="other", created="2026-11-22T09:59:59Z")]
            ),
            ["the operator ignores the ClusterPolicy cluster-policy, because other is older"],
        ),
        (
            look([policy(created="2026-11-22T10:00:00Z"), policy(name="a", created="2026-11-22T10:00:00Z")]),
            ["the operator ignores the ClusterPolicy cluster-policy, because a is older"],
        ),
        (
            look([policy(created="2026-11-22T10:00:00Z"), policy(name="other", created="2026-11-22T10:00:00Z")]),
            ["the ClusterPolicy cluster-policy has no state yet"],
        ),
        # For some seconds after an update, the lease and the status are still those of the former operator.
        (
            look(
                [policy("ready")], leases=[lease("gpu-operator-0_8c1f")], pods=[pod("gpu-operator", "cp1", ready=True)]
            ),
            ["the operator is not the leader yet (lease 53822513.nvidia.com, held by gpu-operator-0)"],
        ),
        (
            look(
                [policy("ready")], leases=[lease("gpu-operator-1_8c1f")], pods=[pod("gpu-operator", "cp1", ready=True)]
            ),
            [],
        ),
        (
            look([policy("ready")], leases=[lease("")], pods=[pod("gpu-operator", "cp1", ready=True)]),
            ["the operator is not the leader yet (lease 53822513.nvidia.com, held by no pod)"],
        ),
        # The status was ready before the operator noticed a change.
        (look([policy("ready")], [operand(available=1)]), [f"operand {PLUGIN}: 1 of 2 pods are ready"]),
        (look([policy("ready")], [operand(updated=1)]), [f"operand {PLUGIN}: 2 of 2 pods are ready"]),
        (look([policy("ready")], [operand(updated=0, updateStrategy={"type": "OnDelete"})]), []),
        # Names of operands, if the operator only reports its own names for them.
        (
            look([policy("notReady", NOT_READY)]),
            [
                f"operand {PLUGIN}: the operator reports that it is not ready",
                "operand nvidia-dcgm-exporter: the operator reports that it is not ready",
            ],
        ),
        (
            look([policy("notReady", NOT_READY)], [operand(available=1)], pods=[pod(waiting=PULL)]),
            [
                f"gpu1: operand {PLUGIN}: ImagePullBackOff: image i can't be pulled: not found",
                "operand nvidia-dcgm-exporter: the operator reports that it is not ready",
            ],
        ),
        (
            look([policy("notReady", "Failed to reconcile state-driver: boom")]),
            ["Failed to reconcile state-driver: boom"],
        ),
        (look([policy("notReady", ready="still looking")]), ["still looking"]),
    ],
)
def test_parts_of_the_operator_that_are_not_ready_are_named(seen: Seen, expected: list[str]) -> None:
    assert [str(entry) for entry in missing("cluster-policy", seen)] == expected


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (look([policy("ready", reason="Reconciled")], [operand()], nodes=[node()]), []),
        # No node is labelled yet, which the operator reports as ready.
        (
            look([policy("ready", reason="NFDLabelsMissing")], nodes=[node(labelled=False)]),
            [f"gpu1: {LABEL}", "the operator has created no operands yet (NFDLabelsMissing)"],
        ),
        (
            look([policy("ready", reason="NoGPUNodes")], nodes=[node()]),
            ["the operator has created no operands yet (NoGPUNodes)"],
        ),
        (look([policy("ready")], nodes=[node()]), ["the operator has created no operands yet (no reason given)"]),
        # One of two GPU nodes, and a node without GPUs.
        (
            look(
                [policy("ready", reason="Reconciled")],
                nodes=[node(), node("gpu2", labelled=False), node("cp1", labelled=False)],
            ),
            [f"gpu2: {LABEL}"],
        ),
        # The obstacle to labels is shown while labels are missing.
        (
            look(
                [policy("ready", reason="NFDLabelsMissing")],
                [{**operand("nfd-worker", available=0), **NFD}],
                nodes=[node(labelled=False)],
                pods=[pod("nfd-worker", waiting=PULL)],
            ),
            [
                "gpu1: DaemonSet nfd-worker: ImagePullBackOff: image i can't be pulled: not found",
                f"gpu1: {LABEL}",
                "the operator has created no operands yet (NFDLabelsMissing)",
            ],
        ),
    ],
)
def test_an_operator_that_has_not_found_the_gpus_is_not_ready(seen: Seen, expected: list[str]) -> None:
    assert [str(entry) for entry in missing("cluster-policy", seen, ["gpu1", "gpu2"])] == expected


@pytest.mark.parametrize(
    ("pods", "more", "expected"),
    [
        ([pod(node="gpu2", waiting=PULL)], {}, []),
        ([pod(waiting=PULL)], {}, [f"operand {PLUGIN}: ImagePullBackOff: image i can't be pulled: not found"]),
        ([], {"nodes": [node(), node("gpu2", labelled=False)]}, []),
        ([], {"nodes": [node(labelled=False)]}, [LABEL]),
        ([], {"deployments": [deployment(available=0)]}, ["Deployment gpu-operator is not available yet"]),
    ],
)
def test_nodes_outside_of_the_run_do_not_count(
    pods: list[dict[str, Any]], more: dict[str, Any], expected: list[str]
) -> None:
    seen = look([policy("notReady", NOT_READY)], [operand(available=1)], pods=pods, **more)
    assert [entry.text for entry in missing("cluster-policy", seen, ["gpu1"], ["gpu1"])] == expected
    assert missing("cluster-policy", seen, ["gpu1"])
