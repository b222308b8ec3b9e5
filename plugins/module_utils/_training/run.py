# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a training job, watch it, and remove it."""

from __future__ import annotations

import base64
import contextlib
import copy
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._cluster import objects
from .._cluster.api import Api, ApiError
from .._cluster.dra import read_claims
from .._cluster.objects import OWNER, OWNER_LABEL
from .._cluster.waiting import STUCK, StuckFor, until, until_gone
from .._cluster.watching import Watch
from .._errors import DomainError
from .._storage import volumes
from . import images, judge, log
from .judge import Seen, Verdict, Wanted

_REMOVAL = 120
# A training takes hours, so its log may be shown with a delay.
_PAUSE = 2.0
_OF_PODS = "involvedObject.kind=Pod"
_JOB_LABEL = "batch.kubernetes.io/job-name"
# Kinds of objects that are removed with the job.
_KINDS = ("services", "configmaps", "secrets")


class Training:
    """One job with its Service, ConfigMap and Secret of the same name."""

    def __init__(self, api: Api, namespace: str, name: str, wanted: Wanted) -> None:
        self._api, self._name, self._wanted = api, name, wanted
        self._core = f"/api/v1/namespaces/{namespace}"
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._job = f"{self._jobs}/{name}"
        self._namespace = namespace

    def start(
        self, job: Mapping[str, Any], others: Sequence[Mapping[str, Any]], candidates: Sequence[str] = ()
    ) -> None:
        """Create the job and its objects, replacing earlier ones of this name. Errors are raised before any change.

        The image is the first of ``candidates`` that runs on the nodes' GPUs; without candidates, it is the one in
        ``job``.
        """
        doing = f"Error while starting the training {self._name}"
        nodes = self._api.items("/api/v1/nodes")
        enough, words = judge.room(self._wanted, nodes, (), ever=True)
        if self._wanted.gpus and enough < self._wanted.nodes:
            raise DomainError(
                f"{doing}: {words}. Set torch_ddp_nodes and torch_ddp_gpus_per_node to numbers that the cluster has."
            )
        if candidates:
            job = self._with_image(
                doing, job, candidates, judge.possible_nodes(self._wanted, nodes) if self._wanted.gpus else []
            )
        self._owned(doing)
        self._check_names(doing)
        self._has_claims(doing, job)
        self._has_priority_class(doing, job)
        trial = {**job, "metadata": {**job["metadata"], "generateName": f"{self._name}-"}}
        del trial["metadata"]["name"]
        try:
            self._api.create(self._jobs, trial, dry=True)
        except ApiError as error:
            raise DomainError(
                f"{doing} in namespace {self._namespace}: the API rejects its Job. Nothing was changed. {error}",
                status=error.status,
            ) from error
        self.remove()
        others = [*others, self._secret()]
        for body in others:
            self._api.apply(self._path(body), dict(body))
        made = self._api.create(self._jobs, dict(job))
        # Owner references make Kubernetes delete these objects together with the job.
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self._name, "uid": made["metadata"]["uid"]}
        for body in others:
            owned = {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}
            self._api.apply(self._path(body), owned)

    def _secret(self) -> dict[str, Any]:
        """Return a Secret with a random word by which the coordinator recognizes this job's pods."""
        metadata = {"name": self._name, "namespace": self._namespace, "labels": {OWNER_LABEL: OWNER}}
        word = base64.b64encode(secrets.token_hex(32).encode()).decode()
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"word": word}}

    def _with_image(
        self, doing: str, job: Mapping[str, Any], candidates: Sequence[str], nodes: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        image, complaint = images.choose_image(candidates, nodes)
        if complaint:
            raise DomainError(
                f"{doing}: {complaint}. Choose other nodes (torch_ddp_node_selector) or another image "
                "(torch_ddp_image). Nothing was changed."
            )
        changed: dict[str, Any] = copy.deepcopy(dict(job))
        for container in changed["spec"]["template"]["spec"]["containers"]:
            container["image"] = image
        return changed

    def _has_claims(self, doing: str, job: Mapping[str, Any]) -> None:
        for claim in volumes.claim_names((job["spec"].get("template") or {}).get("spec") or {}):
            if self._api.find(f"{self._core}/persistentvolumeclaims/{claim}") is None:
                raise DomainError(
                    f"{doing} in namespace {self._namespace}: there is no claim {claim}. Create it, for example with "
                    "gpulab.kubernetes.storage (nfs_cache_claim, nfs_cache_namespace), or use another claim in "
                    "torch_ddp_checkpoints or torch_ddp_volumes. Nothing was changed."
                )

    def _has_priority_class(self, doing: str, job: Mapping[str, Any]) -> None:
        """Raise DomainError for a missing PriorityClass: the API accepts the Job but would reject its pods."""
        name = ((job["spec"].get("template") or {}).get("spec") or {}).get("priorityClassName")
        if name and self._api.find(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}") is None:
            raise DomainError(
                f"{doing}: there is no PriorityClass {name}. Create it, or use another one in "
                "torch_ddp_priority_class. Nothing was changed."
            )

    def watch(self, since: Mapping[str, Any], seconds: float, schedule_timeout: float) -> dict[str, Any]:
        """Return new output, at the latest after ``seconds``.

        ``since`` is the value ``since`` of the previous call's result, empty for the first call.
        """
        known: dict[str, Any] = {"pod": "", "stamp": "", "troubled": {}, "text": "", **since}
        lines: list[str] = []

        def look() -> tuple[Seen, Verdict]:
            seen = self._look(watch)
            verdict = judge.judge(seen, self._wanted)
            # Wall-clock time is used because there may be long pauses between calls.
            stuck = StuckFor(schedule_timeout if verdict.unschedulable else STUCK, known["troubled"])
            if stuck.exceeded(verdict.troubled, time.time()):
                verdict = Verdict("failed", verdict.troubled[verdict.pod], verdict.pod)
            known["troubled"] = stuck.since
            lines.extend(self._news(seen, known))
            return seen, verdict

        def done(found: tuple[Seen, Verdict]) -> bool:
            _seen, verdict = found
            return verdict.over or bool(lines) or verdict.text != known["text"]

        with Watch(self._api) as watch:
            seen, verdict = until(look, done, seconds, pause=_PAUSE, watch=watch)
        known["text"] = verdict.text
        news = {"state": verdict.state, "text": verdict.text, "pod": verdict.pod, "lines": lines, "since": known}
        return {**news, **(self._result(seen, verdict) if verdict.over else {})}

    def last_words(self) -> list[str]:
        """Return the last lines of rank 0's pod."""
        pod = judge.first(self._pods(self._api))
        return log.last_words(self._log(objects.name(pod))) if pod else []

    def remove(self) -> bool:
        """Remove the job with its objects and wait until they are gone; return whether there were any."""
        doing = f"Error while removing the training {self._name}"
        there = self._owned(doing)
        if there:
            self._api.delete(self._job, propagationPolicy="Background")
        for kind in _KINDS:
            found = self._api.find(f"{self._core}/{kind}/{self._name}")
            if found and objects.is_ours(found):
                there = True
                self._api.delete(f"{self._core}/{kind}/{self._name}")
        with Watch(self._api) as watch:
            left = until_gone(lambda: self._jobs_of_name(watch) or self._pods(watch), _REMOVAL, watch)
        if left:
            raise DomainError(
                f"{doing}: it is still there after {_REMOVAL} s. See kubectl --namespace {self._namespace} get "
                f"jobs,pods --selector {_JOB_LABEL}={self._name}"
            )
        return there

    def _owned(self, doing: str) -> bool:
        """Return whether the job exists. Raise DomainError if it is not managed by this collection."""
        found = self._api.find(self._job)
        if found and not objects.is_ours(found):
            raise DomainError(
                f"{doing}: there is a job {self._namespace}/{self._name} that this collection did not create (no "
                f"label {OWNER_LABEL}={OWNER}). Choose another name with torch_ddp_name."
            )
        return found is not None

    def _check_names(self, doing: str) -> None:
        """Raise DomainError for an unmanaged object of this name, which would be changed, and removed with the job."""
        for kind in _KINDS:
            found = self._api.find(f"{self._core}/{kind}/{self._name}")
            if found and not objects.is_ours(found):
                raise DomainError(
                    f"{doing}: among the {kind} of namespace {self._namespace} there is a {self._name} that this "
                    f"collection did not create (no label {OWNER_LABEL}={OWNER}). Choose another name with "
                    "torch_ddp_name. Nothing was changed."
                )

    def _look(self, watch: Watch) -> Seen:
        jobs = self._jobs_of_name(watch)
        if not jobs:
            raise DomainError(
                f"Error while waiting for the training {self._name}: the job was removed, or another run with the "
                "same name has replaced it."
            )
        seen = Seen(jobs[0], self._pods(watch))
        if any(objects.phase(pod) == "Pending" for pod in seen.pods):
            seen = replace(seen, events=watch.items(f"{self._core}/events", fieldSelector=_OF_PODS))
        if judge.judge(seen, self._wanted).unschedulable:
            # All pods of a cluster are a long list; reading it from the API server's cache is cheap.
            cached = {"resourceVersion": "0"}
            nodes, pods = watch.items("/api/v1/nodes", **cached), watch.items("/api/v1/pods", **cached)
            seen = replace(seen, nodes=nodes, cluster_pods=pods, claims=read_claims(watch, pods))
        return seen

    def _jobs_of_name(self, watch: Watch) -> list[dict[str, Any]]:
        return watch.items(self._jobs, fieldSelector=f"metadata.name={self._name}")

    def _pods(self, lists: Api | Watch) -> list[dict[str, Any]]:
        return lists.items(f"{self._core}/pods", labelSelector=f"{_JOB_LABEL}={self._name}")

    def _news(self, seen: Seen, known: dict[str, Any]) -> list[str]:
        pod = judge.first(seen.pods)
        if pod is None or not pod["metadata"].get("uid"):
            return []
        if known["pod"] != pod["metadata"]["uid"]:
            known["pod"], known["stamp"] = pod["metadata"]["uid"], ""
        query = {"timestamps": "true", **({"sinceTime": known["stamp"]} if known["stamp"] else {})}
        lines, known["stamp"] = log.news(self._log(objects.name(pod), **query), known["stamp"])
        return lines

    def _result(self, seen: Seen, verdict: Verdict) -> dict[str, Any]:
        if verdict.state == "succeeded":
            pod = judge.first(seen.pods)
            return {"summary": log.summary(self._log(objects.name(pod))) if pod else {}}
        words = log.last_words(self._log(verdict.pod)) if verdict.pod else []
        return {"last_words": words, "cause": log.cause(words)}

    def _log(self, pod: str, **query: str) -> str:
        # A container that has not started has no log.
        with contextlib.suppress(ApiError):
            return self._api.text(f"{self._core}/pods/{pod}/log", **{"tailLines": "1000", **query})
        return ""

    def _path(self, body: Mapping[str, Any]) -> str:
        return f"{self._core}/{str(body['kind']).lower()}s/{body['metadata']['name']}"
