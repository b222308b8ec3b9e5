# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""torch_ddp_run with a small API server, called step by step like from its action plugin."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from apiserver import ApiServer, Authority

Json = dict[str, Any]
CORE = "/api/v1/namespaces/team"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
JOB = f"{JOBS}/train"
PODS = f"{CORE}/pods"
OURS = {"app.kubernetes.io/managed-by": "gpulab.kubernetes"}
MINE: Json = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "labels": OURS}, "spec": {}}
OBJECTS: list[Json] = [
    {**MINE, "apiVersion": "v1", "kind": "Service"},
    {**MINE, "apiVersion": "v1", "kind": "ConfigMap"},
]


def node(name: str, gpus: int, **labels: str) -> Json:
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {"nvidia.com/gpu": str(gpus)}, "conditions": [ready]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def pod(index: int, phase: str = "Running", status: Json | None = None, owner: str = "job-1") -> Json:
    return {
        "metadata": {
            "name": f"train-{index}-x",
            "namespace": "team",
            "uid": f"pod-{index}",
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
            "ownerReferences": [{"uid": owner}],
        },
        "spec": {
            "nodeName": f"gpu{index + 1}",
            "containers": [{"name": "train", "resources": {"limits": {"nvidia.com/gpu": "2", "memory": "1Gi"}}}],
        },
        "status": {"phase": phase, **(status or {})},
    }


def ended(status: int, reason: str = "Error") -> Json:
    state = {"terminated": {"exitCode": status, "reason": reason, "finishedAt": "2026-11-22T02:00:00Z"}}
    return {"containerStatuses": [{"name": "train", "image": "torch:1", "state": state}]}


class Cluster:
    """Two nodes with two GPUs each, and the API server's responses about one job."""

    def __init__(self, api: ApiServer, run: Callable[..., Json], kubeconfig: Path) -> None:
        self.api, self._run, self._kubeconfig = api, run, kubeconfig
        self.nodes(node("gpu1", 2), node("gpu2", 2))
        self.pods()
        api.answers["/api/v1/pods"] = (200, {"items": []})
        api.answers |= {f"{CORE}/events": (200, {"items": []}), JOBS: (200, {"items": []})}
        api.answers[f"POST {JOBS}"] = (201, {"metadata": {"name": "train", "uid": "job-1"}})
        api.after_write = self._forget

    def nodes(self, *nodes: Json) -> None:
        self.api.answers["/api/v1/nodes"] = (200, {"items": nodes})

    def pods(self, *pods: Json) -> None:
        self.api.answers[PODS] = (200, {"items": pods})

    def job(self, *conditions: Json, labels: Json | None = None) -> None:
        metadata = {"name": "train", "uid": "job-1", "labels": OURS if labels is None else labels}
        job = {"metadata": metadata, "status": {"conditions": conditions}}
        self.api.answers |= {JOB: (200, job), JOBS: (200, {"items": [job]})}

    def log(self, index: int, text: str) -> None:
        self.api.answers[f"{PODS}/train-{index}-x/log"] = (200, text)

    def step(self, step: str, *, check: bool = False, **more: Any) -> Json:
        args = {"kubeconfig": str(self._kubeconfig), "namespace": "team", "name": "train", "nodes": 2, "gpus": 2}
        return self._run("torch_ddp_run", {**args, "job": MINE, "objects": OBJECTS, "step": step, **more}, check=check)

    def writes(self) -> list[str]:
        return [f"{method} {path}" for method, path, _body in self.api.written]

    def _forget(self, method: str, path: str, _body: Any) -> None:
        """Delete the job and its pods."""
        if method == "DELETE":
            self.api.answers.pop(path.partition("?")[0], None)
        if method == "DELETE" and path.startswith(JOB):
            self.api.answers[JOBS] = (200, {"items": []})
            self.pods()


@pytest.fixture
def cluster(api: ApiServer, authority: Authority, run_module: Callable[..., Json], tmp_path: Path) -> Cluster:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(authority.kubeconfig(api.url))
    return Cluster(api, run_module, kubeconfig)


def complete() -> Json:
    return {"type": "Complete", "status": "True"}


def failed(message: str = "Job has reached the specified backoff limit") -> Json:
    return {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": message}


PYTORCH = "docker.io/pytorch/pytorch:2.9.1-cuda{}-cudnn9-runtime"
TRAIN: Json = {**MINE, "spec": {"template": {"spec": {"containers": [{"name": "train", "image": "?"}]}}}}


def pascal(name: str, gpus: int = 2) -> Json:
    return node(name, gpus, **{"nvidia.com/gpu.compute.major": "6", "nvidia.com/gpu.compute.minor": "1"})


@pytest.mark.parametrize(
    ("nodes", "images", "chosen"),
    [
        ([node("gpu1", 2), node("gpu2", 2)], ["12.8", "12.6"], "12.8"),
        ([pascal("gpu1"), node("gpu2", 2)], ["12.8", "12.6"], "12.6"),
        # The node has too few GPUs for a pod of this training.
        ([node("gpu1", 2), node("gpu2", 2), pascal("gpu3", 1)], ["12.8"], "12.8"),
        ([node("gpu1", 2), node("gpu2", 2)], [], "?"),
    ],
)
def test_the_selected_image_supports_the_gpus(
    cluster: Cluster, nodes: list[Json], images: list[str], chosen: str
) -> None:
    cluster.nodes(*nodes)
    assert cluster.step("start", job=TRAIN, images=[PYTORCH.format(cuda) for cuda in images])["changed"]
    jobs = [body for _method, path, body in cluster.api.written if path.startswith(JOBS)]
    made = {job["spec"]["template"]["spec"]["containers"][0]["image"] for job in jobs}
    assert len(jobs) == 2 and made == {PYTORCH.format(chosen) if images else chosen}


def test_an_image_without_kernels_for_a_gpu_is_reported_before_anything_changes(cluster: Cluster) -> None:
    cluster.nodes(node("gpu1", 2), pascal("gpu2"))
    result = cluster.step("start", job=TRAIN, images=[PYTORCH.format("12.8")])
    assert result["failed"] and cluster.writes() == []
    assert "has no kernels for the GPUs of gpu2 (compute capability 6.1)" in result["msg"]
    assert "torch_ddp_node_selector" in result["msg"] and "Nothing was changed." in result["msg"]
    # Without GPUs, kernels don't matter.
    assert cluster.step("start", job=TRAIN, images=[PYTORCH.format("12.8")], gpus=0)["changed"]


def test_a_missing_priority_class_is_reported_before_anything_changes(cluster: Cluster) -> None:
    job = {**MINE, "spec": {"template": {"spec": {"priorityClassName": "urgent", "containers": []}}}}
    result = cluster.step("start", job=job)
    assert result["failed"] and cluster.writes() == []
    assert "there is no PriorityClass urgent" in result["msg"] and "torch_ddp_priority_class" in result["msg"]
    cluster.api.answers["/apis/scheduling.k8s.io/v1/priorityclasses/urgent"] = (200, {"metadata": {"name": "urgent"}})
    assert cluster.step("start", job=job)["changed"]


def test_the_job_is_validated_before_it_is_created_and_owns_its_objects(cluster: Cluster) -> None:
    assert cluster.step("start")["changed"]
    parts = [f"PATCH {CORE}/{kind}/train" for kind in ("services", "configmaps", "secrets")]
    written = [line.partition("?fieldManager")[0] for line in cluster.writes()]
    assert written == [f"POST {JOBS}?dryRun=All", *parts, f"POST {JOBS}", *parts]
    owners = [body["metadata"].get("ownerReferences", [{}])[0].get("uid") for _m, _p, body in cluster.api.written]
    assert owners == [None] * 5 + ["job-1"] * 3


def test_each_training_has_its_own_random_word_in_a_secret(cluster: Cluster) -> None:
    results = [cluster.step("start"), cluster.step("start")]
    secrets = [body for _method, path, body in cluster.api.written if path.startswith(f"{CORE}/secrets/train")]
    words = [base64.b64decode(secret["data"]["word"]).decode() for secret in secrets]
    assert words[0] == words[1] != words[2] == words[3] and len(words[0]) == 64
    assert secrets[0]["metadata"]["labels"] == OURS
    others = [body for _method, path, body in cluster.api.written if "/secrets/" not in path]
    assert not any(word in str([*results, *others]) for word in words)


@pytest.mark.parametrize("kind", ["services", "configmaps", "secrets"])
def test_an_unmanaged_object_is_neither_changed_nor_removed(cluster: Cluster, kind: str) -> None:
    cluster.api.answers[f"{CORE}/{kind}/train"] = (200, {"metadata": {"name": "train"}})
    result = cluster.step("start")
    assert result["failed"] and cluster.writes() == []
    assert f"among the {kind} of namespace team there is a train" in result["msg"] and "torch_ddp_name" in result["msg"]
    assert not cluster.step("remove")["removed"] and cluster.writes() == []


def test_leftovers_of_an_interrupted_run_are_removed_first(cluster: Cluster) -> None:
    cluster.job()
    cluster.pods(pod(0), pod(1))
    assert not cluster.step("start")["failed"]
    assert cluster.writes()[:2] == [f"POST {JOBS}?dryRun=All", f"DELETE {JOB}?propagationPolicy=Background"]


@pytest.mark.parametrize("step", ["start", "remove"])
def test_an_unmanaged_job_is_not_changed(cluster: Cluster, step: str) -> None:
    cluster.job(labels={})
    result = cluster.step(step)
    assert result["failed"]
    assert "a job team/train that this collection did not create" in result["msg"]
    assert "torch_ddp_name" in result["msg"]
    assert cluster.writes() == []


def test_too_few_gpus_are_reported_before_anything_changes(cluster: Cluster) -> None:
    cluster.nodes(node("gpu1", 4), node("gpu2", 2), node("cp1", 0))
    result = cluster.step("start", gpus=4)
    assert result["failed"]
    assert "1 of 2 nodes offer 4 GPUs (gpu1 4 of 4; gpu2 2 of 2)" in result["msg"]
    assert cluster.writes() == []


def test_a_missing_claim_is_reported_before_anything_changes(cluster: Cluster) -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "cache"}}, {"name": "e", "emptyDir": {}}]
    job = {**MINE, "spec": {"template": {"spec": {"volumes": volumes}}}}
    result = cluster.step("start", job=job)
    assert result["failed"]
    assert "in namespace team: there is no claim cache. Create it" in result["msg"]
    assert cluster.writes() == []
    cluster.api.answers[f"{CORE}/persistentvolumeclaims/cache"] = (200, {"metadata": {"name": "cache"}})
    assert not cluster.step("start", job=job)["failed"]


def test_objects_that_the_api_refuses_are_reported_before_anything_changes(cluster: Cluster) -> None:
    cluster.job()
    cluster.api.answers[f"POST {JOBS}"] = (422, {"message": 'Job.batch "train" is invalid: spec.template.spec.volumes'})
    result = cluster.step("start")
    assert result["failed"]
    assert "spec.template.spec.volumes" in result["msg"]
    assert cluster.writes() == [f"POST {JOBS}?dryRun=All"]


def test_check_mode_changes_nothing(cluster: Cluster) -> None:
    assert cluster.step("start", check=True)["changed"]
    assert cluster.writes() == []
    assert cluster.api.asked == []


def test_each_line_of_the_log_is_returned_once(cluster: Cluster) -> None:
    cluster.job()
    cluster.pods(pod(0), pod(1))
    cluster.log(0, "2026-11-22T02:00:00.000000001Z epoch 1\n2026-11-22T02:00:00.000000002Z epoch 2\n")
    first = cluster.step("watch")
    assert (first["state"], first["text"], first["lines"]) == (
        "running",
        "2 of 2 pods are running",
        ["epoch 1", "epoch 2"],
    )
    cluster.log(0, "2026-11-22T02:00:00.000000002Z epoch 2\n2026-11-22T02:00:00.000000003Z epoch 3\n")
    second = cluster.step("watch", since=first["since"])
    assert second["lines"] == ["epoch 3"]
    assert cluster.step("watch", since=second["since"], slice=1)["lines"] == []


def test_watching_a_training_only_requests_its_own_objects(cluster: Cluster) -> None:
    cluster.job()
    cluster.pods(pod(0), pod(1))
    cluster.step("watch")
    assert {path.partition("?")[0] for _user, path in cluster.api.asked} == {JOBS, PODS, f"{PODS}/train-0-x/log"}


def test_a_successful_training_has_its_summary(cluster: Cluster) -> None:
    cluster.job(complete())
    cluster.pods(pod(0, "Succeeded"), pod(1, "Succeeded"))
    cluster.log(0, 'epoch 1\nTORCH_DDP_SUMMARY {"processes": 4}\n')
    result = cluster.step("watch")
    assert (result["state"], result["summary"]) == ("succeeded", {"processes": 4})


NCCL = "[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE) ran for 600 s"
FAILURES = [
    ([ended(80), ended(81)], "ValueError: no data", "pod train-0-x on node gpu1: the training failed", "ValueError"),
    ([ended(81), ended(80)], NCCL, "pod train-1-x on node gpu2: the training failed", f"NCCL timeout: {NCCL}"),
    (
        [ended(81), ended(80, "OOMKilled")],
        "",
        "pod train-1-x on node gpu2: out of memory (OOMKilled), its limit is 1Gi",
        "",
    ),
    ([ended(137), ended(81)], "", "pod train-0-x on node gpu1: container train failed: exit status 137", ""),
]


@pytest.mark.parametrize(("statuses", "log", "text", "cause"), FAILURES)
def test_a_failure_names_the_responsible_pod_and_the_reason(
    cluster: Cluster, statuses: list[Json], log: str, text: str, cause: str
) -> None:
    cluster.job(failed())
    cluster.pods(*(pod(index, "Failed", status) for index, status in enumerate(statuses)))
    blamed = int("train-1-x" in text)
    cluster.log(blamed, f"launch: pod {blamed}, attempt 1: torchrun\nloading\n{log}\n")
    cluster.log(1 - blamed, "this one was only stopped\n")
    result = cluster.step("watch")
    assert result["state"] == "failed"
    assert result["text"].startswith(text)
    assert result["cause"].startswith(cause)
    assert result["last_words"] == ["loading", *([log] if log else [])]


def waiting(reason: str, message: str) -> Json:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "train", "image": "torch:1", "state": state}]}


def unschedulable() -> Json:
    words = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}]}


def test_an_image_that_cannot_be_pulled_is_retried_for_some_time(cluster: Cluster) -> None:
    cluster.job()
    cluster.pods(pod(0, "Pending", waiting("ErrImagePull", "torch:1 not found")))
    first = cluster.step("watch")
    assert (first["state"], first["pod"]) == ("waiting", "train-0-x")
    assert "image torch:1 can't be pulled: torch:1 not found" in first["text"]
    since = {**first["since"], "troubled": {"train-0-x": time.time() - 61}}
    result = cluster.step("watch", since=since)
    assert result["state"] == "failed"
    assert "image torch:1 can't be pulled" in result["text"]


def test_gpus_in_use_are_reported_with_numbers_and_waited_for_as_requested(cluster: Cluster) -> None:
    cluster.job()
    cluster.pods(pod(0, "Pending", unschedulable()), pod(1, "Pending", unschedulable()))
    other = pod(0, owner="another")
    other["metadata"]["name"] = "notebook"
    cluster.api.answers["/api/v1/pods"] = (200, {"items": [other, pod(1)]})
    result = cluster.step("watch")
    assert result["state"] == "waiting"
    assert {"/api/v1/pods?resourceVersion=0", "/api/v1/nodes?resourceVersion=0"} <= {
        path for _user, path in cluster.api.asked
    }
    assert "1 of 2 nodes have 2 GPUs free (gpu1 0 of 2, held by team/notebook; gpu2 2 of 2)" in result["text"]
    since = {**result["since"], "troubled": {"train-0-x": time.time() - 61}}
    assert cluster.step("watch", since=since, schedule_timeout=600, slice=0)["state"] == "waiting"
    assert cluster.step("watch", since=since)["state"] == "failed"


def test_a_job_that_was_deleted_is_reported(cluster: Cluster) -> None:
    result = cluster.step("watch")
    assert result["failed"]
    assert "the job was removed" in result["msg"]


def test_all_objects_are_removed(cluster: Cluster) -> None:
    cluster.job(complete())
    cluster.pods(pod(0, "Succeeded"))
    for kind in ("services", "configmaps", "secrets"):
        cluster.api.answers[f"{CORE}/{kind}/train"] = (200, {"metadata": {"name": "train", "labels": OURS}})
    assert cluster.step("remove")["removed"]
    assert cluster.writes() == [
        f"DELETE {JOB}?propagationPolicy=Background",
        f"DELETE {CORE}/services/train",
        f"DELETE {CORE}/configmaps/train",
        f"DELETE {CORE}/secrets/train",
    ]
    assert not cluster.step("remove")["removed"]
