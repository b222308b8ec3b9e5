# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster import objects
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.objects import GPU, NO_NODE
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.rollout import (
    Missing,
    Seen,
    Wanted,
    acceptable,
    missing,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.rollout_wait import End

WANTED = Wanted(
    daemonsets=("plugin",), deployments=("master",), nodes=("gpu1",), nodes_ready=True, allocatable={"gpu1": {GPU: 4}}
)


def condition(ready: bool) -> dict[str, Any]:
    return {"type": "Ready", "status": "True" if ready else "False", "message": "words of the kubelet"}


def node(name: str = "gpu1", allocatable: int = 4, capacity: int = 4, ready: bool = True) -> dict[str, Any]:
    amounts = {"allocatable": {GPU: str(allocatable)}, "capacity": {GPU: str(capacity)}}
    return {"metadata": {"name": name}, "status": {"conditions": [condition(ready)], **amounts}}


def daemonset(generation: str = "2", observed: int = 2, **pod_spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "plugin",
            "generation": 2,
            "annotations": {"deprecated.daemonset.template.generation": generation},
        },
        "spec": {"selector": {"matchLabels": {"app": "plugin"}}, "template": {"spec": pod_spec}},
        "status": {"observedGeneration": observed},
    }


def deployment(available: int = 1, updated: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": "master", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "master"}}, "replicas": 1},
        "status": {"observedGeneration": 1, "availableReplicas": available, "updatedReplicas": updated},
    }


def pod(
    app: str = "plugin", where: str = "gpu1", ready: bool = True, generation: str = "2", **more: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{app}-x", "uid": "u", "labels": {"app": app, "pod-template-generation": generation}},
        "spec": {"nodeName": where, "containers": []},
        "status": {"phase": "Running", "conditions": [condition(ready)], **more},
    }


WELL = Seen(nodes=[node()], daemonsets=[daemonset()], deployments=[deployment()], pods=[pod()])


def texts(wanted: Wanted, seen: Seen) -> list[str]:
    return [str(entry) for entry in missing(wanted, seen)]


def test_nothing_is_missing_in_a_complete_rollout() -> None:
    assert missing(WANTED, WELL) == []


AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "pci-10de.present", "operator": "In", "values": ["true"]}]}
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (replace(WELL, nodes=[]), f"gpu1: {NO_NODE}"),
        (replace(WELL, nodes=[node(ready=False)]), "gpu1: the node is not ready: words of the kubelet"),
        (replace(WELL, nodes=[node(allocatable=0, capacity=0)]), "gpu1: 0 of 4 GPUs are allocatable"),
        (replace(WELL, nodes=[node(allocatable=3)]), "gpu1: 3 of 4 GPUs are allocatable, 1 of 4 are unhealthy"),
        (replace(WELL, daemonsets=[]), "gpu1: there is no DaemonSet plugin"),
        (replace(WELL, pods=[]), "gpu1: DaemonSet plugin has no pod on this node"),
        (replace(WELL, pods=[pod(where="gpu2")]), "gpu1: DaemonSet plugin has no pod on this node"),
        (
            replace(WELL, pods=[], daemonsets=[daemonset(affinity=AFFINITY)]),
            "gpu1: DaemonSet plugin has no pod on this node (it asks for the label pci-10de.present In true)",
        ),
        (
            replace(WELL, pods=[], daemonsets=[daemonset(affinity=AFFINITY, nodeSelector={"a": "b"})]),
            "gpu1: DaemonSet plugin has no pod on this node (it asks for the label a=b and pci-10de.present In true)",
        ),
        (replace(WELL, pods=[pod(ready=False)]), "gpu1: DaemonSet plugin: pod plugin-x is not ready yet (Running)"),
        (replace(WELL, pods=[pod(generation="1")]), "gpu1: DaemonSet plugin: pod plugin-x is not ready yet (Running)"),
        (
            replace(WELL, daemonsets=[daemonset(observed=1)]),
            "gpu1: DaemonSet plugin: pod plugin-x is not ready yet (Running)",
        ),
        (replace(WELL, deployments=[]), "there is no Deployment master"),
        (replace(WELL, deployments=[deployment(available=0)]), "Deployment master is not available yet"),
        (replace(WELL, deployments=[deployment(updated=0)]), "Deployment master is not available yet"),
    ],
)
def test_each_missing_item_is_named(seen: Seen, text: str) -> None:
    assert texts(WANTED, seen) == [text]


def test_other_nodes_do_not_matter() -> None:
    down = node("gpu9", ready=False)
    assert missing(WANTED, replace(WELL, nodes=[node(), down], pods=[pod(), pod(where="gpu9", ready=False)])) == []


def test_events_of_a_pod_that_does_not_start_are_reported() -> None:
    event = {"involvedObject": {"uid": "u"}, "type": "Warning", "reason": "FailedMount", "message": "no such directory"}
    other = {**event, "involvedObject": {"uid": "other"}, "message": "of another pod"}
    seen = replace(WELL, pods=[pod(ready=False, phase="Pending")], events=[event, other])
    assert texts(WANTED, seen) == ["gpu1: DaemonSet plugin: FailedMount: no such directory"]


def test_missing_gpus_are_reported_with_the_pod_whose_log_explains_them() -> None:
    [entry] = missing(WANTED, replace(WELL, nodes=[node(allocatable=0)]))
    assert entry.pod == "plugin-x"


def test_a_pod_that_is_being_deleted_does_not_count() -> None:
    going = pod()
    going["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    assert texts(WANTED, replace(WELL, pods=[going])) == ["gpu1: DaemonSet plugin has no pod on this node"]


@pytest.mark.parametrize(
    ("amounts", "there", "texts"),
    [
        ({"nvidia.com/gpu.shared": 8}, {GPU: "0", "nvidia.com/gpu.shared": "8"}, []),
        ({"nvidia.com/mig-1g.5gb": 14}, {"nvidia.com/mig-1g.5gb": "14"}, []),
        (
            {"nvidia.com/mig-1g.5gb": 14},
            {GPU: "2", "nvidia.com/mig-1g.5gb": "7"},
            ["gpu1: 2 of 0 GPUs are allocatable", "gpu1: 7 of 14 nvidia.com/mig-1g.5gb are allocatable"],
        ),
    ],
)
def test_every_resource_of_shared_and_partitioned_gpus_counts(
    amounts: dict[str, int], there: dict[str, str], texts: list[str]
) -> None:
    shared = node()
    shared["status"].update(allocatable=there, capacity=there)
    found = missing(replace(WANTED, allocatable={"gpu1": amounts}), replace(WELL, nodes=[shared]))
    assert [str(entry) for entry in found] == texts


LATE = Missing("", "not available yet")
PULL = Missing("gpu1", "ImagePullBackOff", "plugin-x", final=True)
PULL_AGAIN = Missing("gpu1", "ErrImagePull", "plugin-x", final=True)
CRASHED = Missing("gpu1", "exit status 1", "gfd-x", final=True, backoff=100)
UNHEALTHY = Missing("gpu1", "1 of 2 GPUs are allocatable", unhealthy=True)


@pytest.mark.parametrize(
    ("found", "tolerate", "expected"),
    [
        ([], False, True),
        ([LATE], True, False),
        ([UNHEALTHY], False, False),
        ([UNHEALTHY], True, True),
        ([UNHEALTHY, LATE], True, False),
    ],
)
def test_only_unhealthy_gpus_can_be_tolerated(found: list[Missing], tolerate: bool, expected: bool) -> None:
    assert acceptable(Wanted(tolerate_unhealthy=tolerate), found) is expected


@pytest.mark.parametrize(
    ("looks", "settle", "tolerate", "end"),
    [
        ([(0, [])], 0, False, 0),
        ([(0, [LATE]), (500, [LATE]), (501, [])], 0, False, 501),
        # Ready for a moment, before a controller noticed a change.
        ([(0, []), (5, [LATE]), (6, []), (15, []), (16, [])], 10, False, 16),
        ([(0, [PULL]), (30, [PULL_AGAIN]), (60, [PULL])], 0, False, 60),
        ([(0, [PULL]), (30, [LATE]), (61, [PULL]), (120, [PULL]), (121, [PULL])], 0, False, 121),
        ([(0, [CRASHED]), (60, [CRASHED]), (99, [CRASHED]), (100, [CRASHED])], 0, False, 100),
        ([(0, [UNHEALTHY]), (500, [UNHEALTHY])], 0, False, None),
        ([(0, [UNHEALTHY]), (14, [UNHEALTHY]), (15, [UNHEALTHY])], 0, True, 15),
        # GPUs look unhealthy until their plugin runs.
        ([(0, [UNHEALTHY, LATE]), (20, [UNHEALTHY]), (34, [UNHEALTHY]), (35, [UNHEALTHY])], 0, True, 35),
        ([(0, [UNHEALTHY, LATE]), (20, [UNHEALTHY]), (21, []), (22, [])], 0, True, 21),
        ([(0, [UNHEALTHY]), (15, [UNHEALTHY]), (30, [UNHEALTHY])], 30, True, 30),
    ],
)
def test_waiting_ends_when_everything_is_stable_or_something_is_stuck(
    looks: list[tuple[float, list[Missing]]], settle: float, tolerate: bool, end: float | None
) -> None:
    waiting = End(Wanted(tolerate_unhealthy=tolerate), settle)
    assert next((now for now, found in looks if waiting.reached(found, now)), None) == end


@pytest.mark.parametrize(
    ("restarts", "state", "seconds"),
    [
        (0, "terminated", 0),
        (1, "waiting", 30),
        (4, "terminated", 100),
        (5, "waiting", 180),
        (6, "waiting", 180),
        (9_000_000, "waiting", 180),
        (4, "running", 0),
    ],
)
def test_a_failed_container_gets_the_time_to_be_restarted(restarts: int, state: str, seconds: float) -> None:
    """After an API server outage, the kubelet restarts the feature discovery after its usual back-off."""
    status = {"name": "gfd", "ready": False, "restartCount": restarts, "state": {state: {"exitCode": 1}}}
    init = {"name": "first", "ready": True, "restartCount": 9, "state": {"terminated": {"exitCode": 0}}}
    pod = {"metadata": {"name": "a"}, "status": {"initContainerStatuses": [init], "containerStatuses": [status]}}
    assert objects.backoff(pod) == seconds
