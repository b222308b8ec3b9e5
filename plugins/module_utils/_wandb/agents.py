# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the launch agents of a cluster and the pods of their jobs from the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._cluster import objects
from .._cluster.api import Api, ApiError
from .._cluster.objects import Object
from .._cluster.rollout import available, selects

# Source: wandb/sdk/launch/runner/kubernetes_monitor.py and the role wandb_launch.
_JOBS = "wandb.ai/monitor=true"
_AGENTS = {"app.kubernetes.io/part-of": "wandb-launch"}
_LINES = 3
# The kubelet's answer instead of a log while it removes a container.
_NO_LOG = "unable to retrieve container logs"


def read(api: Api) -> dict[str, Any]:
    """Return the agents with their problems, and the pods of jobs, in all namespaces. Raise ApiError."""
    # W&B's chart can only label the pods.
    deployments = [each for each in api.items("/apis/apps/v1/deployments") if _is_agent(each)]
    pods = api.items("/api/v1/pods", labelSelector="=".join(*_AGENTS.items()))
    jobs = api.items("/api/v1/pods", labelSelector=_JOBS)
    events = api.items("/api/v1/events", fieldSelector="type=Warning") if jobs or pods else []
    found = [_agent(deployment, pods, events) for deployment in deployments]
    return {
        "agents": [{**each, "log": _log(api, each) if each["pod"] and not each["alive"] else []} for each in found],
        "jobs": [_job(pod, events) for pod in jobs],
    }


def _is_agent(deployment: Object) -> bool:
    labels = deployment["spec"]["template"]["metadata"].get("labels") or {}
    return _AGENTS.items() <= labels.items()


def _agent(deployment: Object, pods: Sequence[Object], events: Sequence[Object]) -> dict[str, Any]:
    own = [pod for pod in pods if selects(deployment, pod)]
    ailing = next((pod for pod in own if not objects.is_ready(pod)), None)
    alive = available(deployment)
    return {
        "name": objects.name(deployment),
        "namespace": deployment["metadata"]["namespace"],
        "alive": alive,
        "pod": objects.name(ailing) if ailing else "",
        "trouble": "" if alive else _trouble(ailing, events) or "it has no pod that is ready",
    }


def _job(pod: Object, events: Sequence[Object]) -> dict[str, Any]:
    labels = pod["metadata"].get("labels") or {}
    return {
        "name": labels.get("job-name") or objects.name(pod),
        "namespace": pod["metadata"].get("namespace", "default"),
        "phase": objects.phase(pod),
        "node": objects.node_of(pod),
        "gpus": objects.requested(pod),
        "trouble": _trouble(pod, events),
        "orphaned": orphaned(pod),
    }


def orphaned(pod: Object) -> bool:
    """Return whether a pod of a Job still exists although the Job was deleted.

    By default, the API deletes a Job without its pods and removes their owner reference.
    """
    metadata = pod["metadata"]
    of_job = "job-name" in (metadata.get("labels") or {})
    owned = any(owner["kind"] == "Job" for owner in metadata.get("ownerReferences") or [])
    return of_job and not owned and objects.phase(pod) in ("Pending", "Running")


def _trouble(pod: Object | None, events: Sequence[Object]) -> str:
    if pod is None:
        return ""
    uid = pod["metadata"].get("uid")
    found = objects.trouble(pod, [each for each in events if (each.get("involvedObject") or {}).get("uid") == uid])
    return found.text if found else ""


def _log(api: Api, agent: Mapping[str, Any]) -> list[str]:
    """Return the last lines of an agent that exited, which show the reason."""
    path = f"/api/v1/namespaces/{agent['namespace']}/pods/{agent['pod']}/log"
    for previous in ("true", "false"):
        try:
            lines = api.text(path, tailLines="20", previous=previous).splitlines()
        except ApiError:
            continue
        if lines and not lines[0].startswith(_NO_LOG):
            return [line for line in lines if line.strip()][-_LINES:]
    return []
