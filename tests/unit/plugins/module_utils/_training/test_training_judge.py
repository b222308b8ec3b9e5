# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.access import next_steps
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.dra import Claim, Claims, Device
from ansible_collections.gpulab.kubernetes.plugins.module_utils._training import judge
from ansible_collections.gpulab.kubernetes.plugins.module_utils._training.judge import Seen, Wanted
from hypothesis import given
from hypothesis import strategies as some

Json = dict[str, Any]
JOB: Json = {"metadata": {"name": "train", "uid": "job-1"}}


def node(name: str, gpus: int, *, ready: bool = True, cordoned: bool = False, labels: Json | None = None) -> Json:
    condition = {"type": "Ready", "status": str(ready), "message": "kubelet stopped posting"}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}, "conditions": [condition]},
    }


def pod(name: str, phase: str = "Running", *, where: str = "gpu1", gpus: int = 2, **more: Any) -> Json:
    container = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    metadata = {"name": name, "namespace": "team", "uid": name, **more.pop("metadata", {})}
    return {
        "metadata": metadata,
        "spec": {"nodeName": where, "containers": [container]},
        "status": {"phase": phase, **more},
    }


def terminated(status: int, at: str, reason: str = "Error") -> Json:
    state = {"terminated": {"exitCode": status, "reason": reason, "finishedAt": at}}
    return {"containerStatuses": [{"name": "train", "image": "i", "state": state}]}


@pytest.mark.parametrize(
    ("nodes", "pods", "wanted", "enough", "words"),
    [
        ([node("a", 4), node("b", 4)], [], Wanted(2, 4), 2, "2 of 2 nodes have 4 GPUs free (a 4 of 4; b 4 of 4)"),
        (
            [node("a", 4), node("b", 2)],
            [pod("x", where="a", gpus=3)],
            Wanted(2, 4),
            0,
            "0 of 2 nodes have 4 GPUs free (a 1 of 4, held by team/x; b 2 of 2)",
        ),
        ([node("a", 4), node("cp", 0)], [], Wanted(1, 1), 1, "1 of 1 nodes have 1 GPUs free (a 4 of 4)"),
        ([node("a", 4, cordoned=True)], [], Wanted(1, 1), 0, "0 of 1 nodes have 1 GPUs free (a 4 of 4, cordoned)"),
        (
            [node("a", 4, ready=False)],
            [],
            Wanted(1, 1),
            0,
            "0 of 1 nodes have 1 GPUs free (a 4 of 4, the node is not ready: kubelet stopped posting)",
        ),
        ([node("a", 4, labels={"x": "1"}), node("b", 4)], [], Wanted(2, 1, {"x": "1"}), 1, "1 of 2 nodes have 1 GPUs"),
        ([node("cp", 0)], [], Wanted(2, 1), 0, "0 of 2 nodes have 1 GPUs free (no node offers any)"),
        ([node("a", 2), node("b", 2)], [pod("x", "Succeeded")], Wanted(1, 2), 2, "1 of 1 nodes have 2 GPUs free (a 2"),
    ],
)
def test_free_gpus_are_counted_by_node(
    nodes: list[Json], pods: list[Json], wanted: Wanted, enough: int, words: str
) -> None:
    found = judge.room(wanted, nodes, pods)
    assert found[0] == enough
    assert found[1].startswith(words)


TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
SLICED = {"nvidia.com/gpu.sharing-strategy": "time-slicing"}
UNSHARED = {"nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.product": "Tesla-T4"}
MIG_SINGLE = {**UNSHARED, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}
CLAIM = Claim((Device("a", "gpu-0", "one"), Device("a", "gpu-1", "two")))


def tainted(name: str, gpus: int, key: str, effect: str = "NoSchedule") -> Json:
    return {**node(name, gpus), "spec": {"taints": [{"key": key, "effect": effect}]}}


def mixed_mig(name: str, parts: int) -> Json:
    found = node(name, 0)
    found["status"]["allocatable"]["nvidia.com/mig-1g.5gb"] = str(parts)
    return found


def claiming(name: str) -> Json:
    found = pod(name, where="a", gpus=0)
    found["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimName": "gpus"}]
    return found


@pytest.mark.parametrize(
    ("nodes", "pods", "largest"),
    [
        ([node("a", 4)], [], (1, 4)),
        ([node("a", 1)], [], (1, 1)),
        ([node("cp", 0), node("a", 2), node("b", 2)], [], (2, 2)),
        ([node("a", 2, labels=UNSHARED), node("b", 2, labels=UNSHARED)], [], (2, 2)),
        ([node("a", 4), node("b", 2), node("c", 1)], [], (1, 4)),
        ([node("a", 4), node("b", 3), node("c", 1)], [], (2, 3)),
        ([node("a", 8), node("b", 1)], [], (1, 8)),
        ([node(name, 1) for name in "abcdefghi"] + [node("z", 8)], [], (10, 1)),
        ([node("a", 4), node("b", 4)], [pod("x", where="a", gpus=3)], (1, 4)),
        ([node("a", 4), node("b", 2)], [pod("x", where="a", gpus=2)], (2, 2)),
        ([node("a", 2), node("b", 2)], [pod("x", "Succeeded", where="a")], (2, 2)),
        ([node("a", 2)], [pod("x", where="a")], None),
        ([node("a", 4)], [claiming("x")], (1, 2)),
        ([node("a", 4, cordoned=True), node("b", 1)], [], (1, 1)),
        ([node("a", 4, ready=False), node("b", 1)], [], (1, 1)),
        ([node("a", 4, cordoned=True)], [], None),
        ([node("a", 3)], [pod("x", where="a", gpus=5)], None),
        ([tainted("a", 4, "gpulab.io/gpu-isolated"), node("b", 1)], [], (1, 1)),
        ([tainted("a", 4, "node-role.kubernetes.io/control-plane"), node("b", 1)], [], (1, 1)),
        ([tainted("a", 4, "nvidia.com/gpu"), node("b", 1)], [], (1, 4)),
        ([tainted("a", 4, "team", "PreferNoSchedule")], [], (1, 4)),
        ([node("a", 8, labels=SLICED)], [], (1, 1)),
        ([node("a", 8, labels=SLICED), node("b", 4, labels=SLICED)], [pod("x", where="b", gpus=1)], (2, 1)),
        ([node("a", 7, labels=MIG_SINGLE)], [], (1, 1)),
        ([mixed_mig("a", 7)], [], None),
        ([mixed_mig("a", 7), node("b", 2)], [], (1, 2)),
        ([node("cp", 0)], [], None),
    ],
)
def test_the_training_suggested_after_a_success_fits_the_cluster(
    nodes: list[Json], pods: list[Json], largest: tuple[int, int] | None
) -> None:
    claims = Claims({("team", "gpus"): CLAIM})
    free = judge.free_gpus(nodes, pods, claims, TOLERATIONS)
    printed = "\n".join(next_steps("10.0.0.11:6443", "", "cp1", free_gpus=free))
    command = re.search(
        r"kubernetes\.train -e torch_ddp_nodes=(\d+) -e torch_ddp_gpus_per_node=(\d+)   # train on (\d+) GPUs?,",
        printed,
    )
    if largest is None:
        assert "kubernetes.train" not in printed
        return
    assert command is not None, printed
    count, gpus, together = map(int, command.groups())
    assert ((count, gpus), together) == (largest, count * gpus)
    for ever in (False, True):
        assert judge.room(Wanted(count, gpus), nodes, pods, claims, ever)[0] >= count


@given(some.dictionaries(some.text(min_size=1), some.integers(0, 16), max_size=12))
def test_no_suggested_training_uses_more_gpus_than_the_largest_one(free: dict[str, int]) -> None:
    found = judge.largest_training(free)
    best = max((size * sum(each >= size for each in free.values()) for size in range(1, 17)), default=0)
    assert best == (found.nodes * found.gpus if found else 0)
    assert found is None or sum(each >= found.gpus for each in free.values()) == found.nodes


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        ([pod("a", "Failed", **terminated(81, "1")), pod("b", "Failed", **terminated(80, "2"))], "b"),
        ([pod("a", "Failed", **terminated(80, "1")), pod("b", "Failed", **terminated(80, "2", "OOMKilled"))], "b"),
        ([pod("a", "Failed", **terminated(137, "1")), pod("b", "Failed", **terminated(81, "2"))], "a"),
        ([pod("a", "Failed", **terminated(137, "1")), pod("b", "Failed", **terminated(137, "2"))], "b"),
        ([pod("a", "Failed"), pod("b", "Running")], "a"),
    ],
    ids=["the script's", "no memory", "lost", "the last of several", "no word of its end"],
)
def test_the_pod_that_caused_the_failure_is_found(pods: list[Json], want: str) -> None:
    found = judge.failing(pods)
    assert found is not None and found["metadata"]["name"] == want


def test_without_a_failed_pod_none_is_blamed() -> None:
    assert judge.failing([pod("a"), pod("b", "Succeeded")]) is None


def test_after_a_deadline_no_pod_is_blamed() -> None:
    condition = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "Job was active too long"}
    verdict = judge.judge(Seen({**JOB, "status": {"conditions": [condition]}}), Wanted(2, 2))
    assert (verdict.state, verdict.text, verdict.pod) == ("failed", "Job was active too long", "")


def test_a_lost_pod_is_waited_for() -> None:
    lost = pod("a", "Failed", **terminated(137, "1"))
    verdict = judge.judge(Seen(JOB, [lost, pod("b")]), Wanted(2, 2))
    assert (verdict.state, verdict.text, verdict.troubled) == ("waiting", "1 of 2 pods are running", {})


def test_a_problem_of_one_pod_is_reported_but_not_final() -> None:
    event = {"type": "Warning", "reason": "FailedMount", "message": "no such volume", "involvedObject": {"uid": "a"}}
    verdict = judge.judge(Seen(JOB, [pod("a", "Pending"), pod("b")], events=[event]), Wanted(2, 2))
    assert verdict.text == "1 of 2 pods are running; pod a: FailedMount: no such volume"
    assert verdict.troubled == {}


@pytest.mark.parametrize("told", [{}, {"annotations": None}, {"annotations": {judge.INDEX: "x"}}])
def test_a_pod_without_an_index_is_not_the_first(told: Json) -> None:
    assert judge.first([pod("a", metadata=told)]) is None


def test_the_newest_of_several_first_pods_counts() -> None:
    marked = {"annotations": {judge.INDEX: "0"}}
    pods = [pod(name, metadata={**marked, "creationTimestamp": name}) for name in ("2026-1", "2026-2")]
    found = judge.first(pods)
    assert found is not None and found["metadata"]["name"] == "2026-2"
