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
    state: str = "", error: str = "", name: str = "cluster-policy", ready: str = "", reason: str = "", made: str = "1"
) -> dict[str, Any]:
    conditions = [{"type": "Error", "status": "True", "message": error}] if error else []
    conditions += [{"type": "Ready", "status": "False", "message": ready}] if ready else []
    conditions += [{"type": "Ready", "status": "True", "reason": reason}] if reason else []
    return {
        "metadata": {"name": name, "creationTimestamp": made},
        "status": {"state": state, "conditions": conditions},
    }


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


def pod(app: str = PLUGIN, node: str = "gpu1", waiting: dict[str, str] | None = None) -> dict[str, Any]:
    statuses = [{"name": "c", "image": "i", "state": {"waiting": waiting}}] if waiting else []
    return {
        "metadata": {"name": f"{app}-1", "labels": {"app": app}},
        "spec": {"nodeName": node},
        "status": {"phase": "Pending", "containerStatuses": statuses},
    }


def look(policies: Sequence[dict[str, Any]] = (), daemonsets: Sequence[dict[str, Any]] = (), **more: Any) -> Seen:
    return Seen(policies=policies, daemonsets=daemonsets, **more)


NOT_READY = "ClusterPolicy is not ready; states not ready: [state-device-plugin state-dcgm-exporter]"
PULL = {"reason": "ImagePullBackOff", "message": "not found"}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (look([policy("ready")]), []),
        (look([policy("ready")], [operand()]), []),
        (look([policy("ready")], [operand(wanted=0, available=0, updated=0)]), []),
        # Of others in its namespace.
        (look([policy("ready")], [{**operand(available=0), "metadata": {"name": "nfd-worker"}}]), []),
        (look(), ["there is no ClusterPolicy cluster-policy"]),
        (
            look(deployments=[deployment(available=0)], pods=[pod("gpu-operator", "cp1", PULL)]),
            [
                "cp1: Deployment gpu-operator: ImagePullBackOff: image i can't be pulled: not found",
                "there is no ClusterPolicy cluster-policy",
            ],
        ),
        # The former operator says that the former operands are ready.
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
        (
            look([policy(made="2"), policy("ready", name="other")]),
            ["the operator ignores the ClusterPolicy cluster-policy, because there is other too"],
        ),
        # Of two that were made in the same second the lower name counts.
        (
            look([policy(), policy("ready", name="a")]),
            ["the operator ignores the ClusterPolicy cluster-policy, because there is a too"],
        ),
        (look([policy("ready"), policy(name="other", made="2")]), []),
        (look([policy("ready", reason="Reconciled")]), []),
        # Before node feature discovery is through, the operator calls doing nothing ready.
        (
            look(
                [policy("ready", reason="NFDLabelsMissing")],
                [{**operand(available=0), "metadata": {"name": "nfd-worker"}}],
            ),
            [
                "DaemonSet nfd-worker: 0 of 2 pods are ready",
                "node feature discovery has not labeled a node yet",
            ],
        ),
        (
            look([policy("ready", reason="NoGPUNodes")]),
            ["node feature discovery has found no node with GPUs"],
        ),
        # Said ready before it has looked at a change.
        (look([policy("ready")], [operand(available=1)]), [f"operand {PLUGIN}: 1 of 2 pods are ready"]),
        (look([policy("ready")], [operand(updated=1)]), [f"operand {PLUGIN}: 2 of 2 pods are ready"]),
        (look([policy("ready")], [operand(updated=0, updateStrategy={"type": "OnDelete"})]), []),
        # The operands' names, where the operator tells its own words for them only.
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
def test_what_is_not_ready_is_named(seen: Seen, expected: list[str]) -> None:
    assert [str(entry) for entry in missing("cluster-policy", seen)] == expected


def test_without_gpus_there_is_nothing_to_wait_for() -> None:
    assert missing("cluster-policy", look([policy("ready", reason="NoGPUNodes")]), gpus=False) == []
