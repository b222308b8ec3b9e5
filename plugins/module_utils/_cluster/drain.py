# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evict the pods of a node, subject to disruption budgets, until none is left or the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from .._errors import DomainError
from .._words import written
from .api import BUSY, Api, ApiError
from .objects import Object, full_name, phase
from .waiting import until_gone
from .watching import Watch

_ENDED = ("Succeeded", "Failed")
_MIRROR = "kubernetes.io/config.mirror"
# The answers if a pod is gone, and if another pod has its name now (to an eviction, and to a patch).
_GONE, _CONFLICT, _INVALID = 404, 409, 422
# Source: https://github.com/kubernetes/api/blob/master/policy/v1/types.go
_BUDGET = "DisruptionBudget"
# Annotation with which the programs of a pod learn how long they have at least before it is killed, in UTC.
DEADLINE = "gpulab.io/disruption-deadline"
_DEFAULT_GRACE = 30


class DrainError(DomainError):
    """The node could not be drained. The field ``blocking`` has the pods that prevent it."""


def to_evict(pods: Sequence[Object]) -> list[Object]:
    """Return the pods to evict: not finished, not of a DaemonSet, not static."""
    return [
        pod
        for pod in pods
        if phase(pod) not in _ENDED
        and _MIRROR not in (pod["metadata"].get("annotations") or {})
        and controller(pod) != "DaemonSet"
    ]


def controller(pod: Object) -> str:
    """Return the kind of the pod's controller, which would create it again on another node; empty without one."""
    return str(owner(pod).get("kind", ""))


def owner(pod: Object) -> Object:
    """Return the reference to the pod's controller, empty without one."""
    owners = pod["metadata"].get("ownerReferences") or []
    return next((each for each in owners if each.get("controller")), {})


def described(pods: Sequence[Object], jobs: Collection[str]) -> dict[str, str]:
    """Return the pods among ``jobs`` (UIDs) that have not ended: UID -> name with controller."""
    return {
        str(pod["metadata"].get("uid")): full_name(pod) + (f" ({found['kind']} {found['name']})" if found else "")
        for pod in pods
        for found in (owner(pod),)
        if pod["metadata"].get("uid") in jobs and phase(pod) not in _ENDED
    }


def wait_for_jobs(api: Api, node: str, jobs: Collection[str], timeout: float) -> dict[str, str]:
    """Wait until the pods ``jobs`` have ended; return those that have not after ``timeout`` seconds."""
    if not jobs:
        return {}
    with Watch(api) as watch:
        return until_gone(lambda: described(pods_on(watch, node), jobs), timeout, watch)


def pods_on(api: Api | Watch, node: str) -> list[Object]:
    return list(api.items("/api/v1/pods", fieldSelector=f"spec.nodeName={node}"))


def refuse_unmanaged(node: str, pods: Sequence[Object]) -> None:
    """Raise DrainError for pods without a controller that are not being deleted, before any pod is evicted."""
    alone = [full_name(pod) for pod in pods if not controller(pod) and not pod["metadata"].get("deletionTimestamp")]
    if alone:
        raise DrainError(
            f"Error while draining node {node}: nothing would create these pods again on another node: "
            f"{', '.join(alone)}. Delete them yourself when they are done. No pod was evicted",
            blocking=[f"{name} (no controller)" for name in alone],
        )


def grace_period(pod: Object, left: float) -> int:
    """Return the grace period of a pod with ``left`` seconds until its deadline, at least the pod's own."""
    own = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return max(_DEFAULT_GRACE if own is None else int(own), int(left))


def drain(
    api: Api,
    node: str,
    timeout: float,
    jobs: Collection[str] = (),
    grace: float = 0,
    abandoned: Callable[[], bool] = lambda: False,
    cautious: bool = False,
) -> list[str]:
    """Evict the pods, wait until they are gone, and return their names. Raise DrainError after ``timeout`` seconds.

    If ``cautious``, no pod is evicted before each of them could be.

    With ``grace``, the pods ``jobs`` (UIDs) are annotated with their deadline and get at least so many seconds to end.
    As soon as the node is ``abandoned``, the rest of its pods is not waited for.
    """
    evicted: list[str] = []
    deadline = time.time() + grace
    refuse_unmanaged(node, to_evict(pods_on(api, node)))
    with Watch(api) as watch:
        if cautious:
            protected = until_gone(lambda: _protected(api, to_evict(pods_on(watch, node))), timeout, watch)
            if protected:
                raise DrainError(
                    f"Error while draining node {node}: after {timeout:g} s these pods can't be evicted: "
                    f"{', '.join(protected)}. No pod was evicted",
                    blocking=protected,
                )

        def evict(pod: Object) -> str:
            if pod["metadata"].get("deletionTimestamp"):
                return "it was told to end, but is still running"
            if not grace or pod["metadata"].get("uid") not in jobs:
                return _evict(api, pod, evicted)
            _annotate(api, pod, written(deadline))
            return _evict(api, pod, evicted, {"gracePeriodSeconds": grace_period(pod, deadline - time.time())})

        def look() -> list[str]:
            before = len(evicted)
            left = [f"- {full_name(pod)}: {evict(pod)}" for pod in to_evict(pods_on(watch, node))]
            if len(evicted) > before:
                watch.outdated()
            return [] if left and abandoned() else left

        left = until_gone(look, grace + timeout, watch)
        if left:
            watch.outdated()
            for pod in to_evict(pods_on(watch, node)):
                if not pod["metadata"].get("deletionTimestamp"):
                    _annotate(api, pod, None)
    if left:
        listed = "\n".join(left)
        raise DrainError(
            f"Error while draining node {node}: after {grace + timeout:g} s there are still pods:\n{listed}",
            blocking=[line.removeprefix("- ") for line in left],
        )
    return evicted


def _annotate(api: Api, pod: Object, deadline: str | None) -> None:
    """Set the pod's deadline, or remove it from a pod that stays. A pod that has ended in the meantime is ignored."""
    meta = pod["metadata"]
    if (meta.get("annotations") or {}).get(DEADLINE) == deadline:
        return
    try:
        api.merge(_path(pod), {"metadata": {"uid": meta.get("uid"), "annotations": {DEADLINE: deadline}}})
    except ApiError as error:
        if error.status not in (_GONE, _CONFLICT, _INVALID) and not error.passing:
            raise


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _protected(api: Api, pods: Sequence[Object]) -> list[str]:
    """Return the pods whose eviction is refused now, each with the reason. Nothing is evicted."""
    granted: list[str] = []
    return [
        f"{full_name(pod)}: {reason}"
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp")
        for before, reason in [(len(granted), _evict(api, pod, granted, {"dryRun": ["All"]}))]
        if len(granted) == before
    ]


def _evict(api: Api, pod: Object, evicted: list[str], options: dict[str, Any] | None = None) -> str:
    """Request the pod's eviction, and note it once it is granted; return why the pod still exists."""
    meta = pod["metadata"]
    names = {"name": meta["name"], "namespace": meta["namespace"]}
    options = {"preconditions": {"uid": meta.get("uid")}, **(options or {})}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": names, "deleteOptions": options}
    try:
        api.create(f"{_path(pod)}/eviction", body)
    except ApiError as error:
        said = str(error).partition(": ")[2]
        if error.status == BUSY and _BUDGET in error.causes:
            return f"a disruption budget protects it ({said})"
        if error.passing or error.status == _CONFLICT:
            # What is listed next can be evicted again, whether or not the API granted this request.
            return f"the API could not grant the request for its eviction ({said})"
        if error.status != _GONE:
            raise
    evicted.append(full_name(pod))
    return "it was told to end"
