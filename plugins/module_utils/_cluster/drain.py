# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evict the pods of a node, subject to disruption budgets, until none is left or the time is over."""

from __future__ import annotations

from collections.abc import Sequence

from .._errors import DomainError
from .api import BUSY, Api, ApiError
from .objects import Object, full_name, phase
from .waiting import until_gone
from .watching import Watch

_MIRROR = "kubernetes.io/config.mirror"
_GONE = 404
# Source: https://github.com/kubernetes/api/blob/master/policy/v1/types.go
_BUDGET = "DisruptionBudget"


class DrainError(DomainError):
    """The node could not be drained."""


def to_evict(pods: Sequence[Object]) -> list[Object]:
    """Return the pods to evict: not finished, not of a DaemonSet, not static."""
    return [
        pod
        for pod in pods
        if phase(pod) not in ("Succeeded", "Failed")
        and _MIRROR not in (pod["metadata"].get("annotations") or {})
        and controller(pod) != "DaemonSet"
    ]


def controller(pod: Object) -> str:
    """The kind of what would make the pod again elsewhere, empty for a pod that nobody looks after."""
    owners = pod["metadata"].get("ownerReferences") or []
    return next((str(owner["kind"]) for owner in owners if owner.get("controller")), "")


def pods_on(api: Api | Watch, node: str) -> list[Object]:
    return list(api.items("/api/v1/pods", fieldSelector=f"spec.nodeName={node}"))


def refuse_unmanaged(node: str, pods: Sequence[Object]) -> None:
    """Raise DrainError for pods without a controller, before any pod is evicted."""
    alone = [full_name(pod) for pod in pods if not controller(pod)]
    if alone:
        raise DrainError(
            f"Error while draining node {node}: nothing would create these pods again on another node: "
            f"{', '.join(alone)}. Delete them yourself when they are done. No pod was evicted"
        )


def drain(api: Api, node: str, timeout: float) -> list[str]:
    """Evict the pods and wait until they are gone; returns their names. Raises DrainError when the time is over."""
    evicted: list[str] = []
    refuse_unmanaged(node, to_evict(pods_on(api, node)))
    with Watch(api) as watch:

        def look() -> list[str]:
            before = len(evicted)
            left = [f"- {full_name(pod)}: {_evict(api, pod, evicted)}" for pod in to_evict(pods_on(watch, node))]
            if len(evicted) > before:
                watch.outdated()
            return left

        left = until_gone(look, timeout, watch)
    if left:
        listed = "\n".join(left)
        raise DrainError(f"Error while draining node {node}: after {timeout:g} s there are still pods:\n{listed}")
    return evicted


def _evict(api: Api, pod: Object, evicted: list[str]) -> str:
    """Ask for the pod's eviction, once it is granted no more; returns why it is still there."""
    meta = pod["metadata"]
    if meta.get("deletionTimestamp"):
        return "it was told to end, but is still running"
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
    names = {"name": meta["name"], "namespace": meta["namespace"]}
    try:
        api.create(path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": names})
    except ApiError as error:
        said = str(error).partition(": ")[2]
        if error.status == BUSY and _BUDGET in error.causes:
            return f"a disruption budget protects it ({said})"
        if error.passing:
            # The eviction can be requested again, whether or not the API granted it.
            return f"the API could not answer the request for its eviction ({said})"
        if error.status != _GONE:
            raise
    evicted.append(full_name(pod))
    return "it was told to end"
