# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read pods and nodes from the API: resources they hold, readiness and problems. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .dra import Claims

Object = Mapping[str, Any]
Thing = TypeVar("Thing")
GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"
OWNER_LABEL = "app.kubernetes.io/managed-by"
OWNER = "gpulab.kubernetes"
NO_NODE = (
    "there is no such node in the cluster. If it was deleted there, run kubeadm reset on the host, and it joins again"
)

_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"(: ErrImagePull: |$)')
PULL_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
_START = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff")

# The kubelet's delay in seconds before it restarts a failed container; it doubles each time. Until then, a container
# that failed because of a temporary problem is not considered failed.
_FIRST_BACKOFF, _LONGEST_BACKOFF, _TO_FAIL = 10.0, 160.0, 20.0


@dataclass(frozen=True)
class Trouble:
    """A problem that keeps a pod from running. ``final``: it is likely to persist."""

    text: str
    final: bool = False


def name(thing: Object) -> str:
    found: str = thing["metadata"]["name"]
    return found


def full_name(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace', 'default')}/{name(pod)}"


def key(thing: Object) -> tuple[str, str, str]:
    """Return kind, namespace (empty if none) and name."""
    return thing["kind"], thing["metadata"].get("namespace") or "", name(thing)


def words(thing: Object) -> str:
    """Return kind and name, with the namespace if any."""
    kind, namespace, own = key(thing)
    return f"{kind} {namespace}/{own}" if namespace else f"{kind} {own}"


def grouped(things: Iterable[Thing], key: Callable[[Thing], str]) -> dict[str, list[Thing]]:
    """Group things by a key, to avoid searching all of them for each key."""
    found: dict[str, list[Thing]] = {}
    for thing in things:
        found.setdefault(key(thing), []).append(thing)
    return found


def node_of(pod: Object) -> str:
    return pod["spec"].get("nodeName") or ""


def subject(event: Object) -> str:
    """Return the UID of the object that an event is about."""
    return (event.get("involvedObject") or {}).get("uid") or ""


def phase(pod: Object) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def container_statuses(pod: Object) -> list[Object]:
    """Return the statuses of the pod's containers, init containers first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def is_ready(thing: Object) -> bool:
    """Return whether a pod or node is ready."""
    return _condition(thing, "Ready").get("status") == "True" and not thing["metadata"].get("deletionTimestamp")


def is_lost(node: Object) -> bool:
    """Return whether the kubelet of a node has not reported for so long that nothing is known about its pods."""
    return _condition(node, "Ready").get("status") == "Unknown"


def not_ready_reason(node: Object) -> str:
    """Return why a node is not ready, with the kubelet's message."""
    condition = _condition(node, "Ready")
    words = condition.get("message") or condition.get("reason") or "its kubelet has not reported yet"
    return f"the node is not ready: {words}"


def quantity(node: Object, kind: str, resource: str = GPU) -> int:
    """Return the amount of a countable resource; ``kind`` is capacity or allocatable."""
    value = ((node.get("status") or {}).get(kind) or {}).get(resource, "0")
    return whole(value)


def whole(value: Any) -> int:
    """Return a whole number from the API, 0 for anything else."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() else 0


def gpu_resources(node: Object) -> list[str]:
    """Return the node's resources of whole, shared or partitioned GPUs; former resources with amount 0 are omitted."""
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return sorted(name for name in amounts if name.startswith((GPU, MIG)) and quantity(node, "allocatable", name))


def requested(pod: Object, resource: str = GPU) -> int:
    """Return the amount that the scheduler counts for a pod; init containers run first, sidecars all the time."""
    spec = pod["spec"]
    sidecars = highest = 0
    for container in spec.get("initContainers") or []:
        amount = _asked(container, resource)
        if container.get("restartPolicy") == "Always":
            sidecars += amount
            highest = max(highest, sidecars)
        else:
            highest = max(highest, sidecars + amount)
    return max(highest, sidecars + sum(_asked(container, resource) for container in spec["containers"]))


def holders(pods: Iterable[Object], claims: Claims, resource: str = GPU) -> dict[str, dict[str, int]]:
    """Return node -> full name of each pod that holds some of the resource -> amount.

    GPUs of claims count as ``nvidia.com/gpu``. If several pods share one, only the first pod's amount includes it.
    """
    found: dict[str, dict[str, int]] = {}
    counted: set[tuple[str, str]] = set()
    for pod in pods:
        if not node_of(pod) or phase(pod) in ("Succeeded", "Failed"):
            continue
        amount = requested(pod, resource)
        claimed = claims.devices_of(pod) if resource == GPU else set()
        if amount or claimed:
            found.setdefault(node_of(pod), {})[full_name(pod)] = amount + len(claimed - counted)
            counted |= claimed
    return found


def trouble(pod: Object, events: Sequence[Object] = ()) -> Trouble | None:
    """Return the problem of a pod that is not running or has failed; None if none is known.

    ``events`` are those of this pod, in any order.
    """
    status = pod.get("status") or {}
    for container in container_statuses(pod):
        found = _container_trouble(container)
        if found:
            return found
    if phase(pod) == "Failed":
        return Trouble(": ".join(filter(None, (status.get("reason"), status.get("message")))) or "the pod failed", True)
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return Trouble(f"{scheduled.get('reason', 'Unschedulable')}: {scheduled.get('message', '')}".rstrip(": "), True)
    if phase(pod) == "Pending":
        return _last_warning(events)
    return None


def is_ours(found: Object) -> bool:
    """Return whether the object has this collection's label."""
    return (found["metadata"].get("labels") or {}).get(OWNER_LABEL) == OWNER


def could_not_freeze(pod: Object) -> bool:
    """Return whether runc failed before the pod's program ran, because the freezer of cgroup version 1 did not settle.

    This happens at random and does not depend on the pod (opencontainers/cgroups, fs/freezer.go;
    https://github.com/kubernetes/kubernetes/issues/131087).
    """
    ends = ((container.get("state") or {}).get("terminated") or {} for container in container_statuses(pod))
    return any(end.get("reason") == "StartError" and "unable to freeze" in (end.get("message") or "") for end in ends)


def restarts(pod: Object) -> int:
    return sum(status.get("restartCount", 0) for status in (pod.get("status") or {}).get("containerStatuses") or [])


def backoff(pod: Object) -> float:
    """Return the seconds until a failed container has been restarted and had time to fail again."""
    crashed = [
        status.get("restartCount", 0)
        for status in container_statuses(pod)
        if "running" not in (status.get("state") or {}) and not status.get("ready")
    ]
    # The kubelet doubles the delay each time; long delays are not waited for.
    return min(_FIRST_BACKOFF * 2 ** (min(max(crashed), 10) - 1), _LONGEST_BACKOFF) + _TO_FAIL if any(crashed) else 0


def _container_trouble(container: Object) -> Trouble | None:
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    reason = waiting.get("reason") or ""
    if reason in PULL_REASONS:
        words = _BACK_OFF.sub("", waiting.get("message") or "")
        return Trouble(f"{reason}: image {container['image']} can't be pulled: {words}".rstrip(": "), True)
    if reason == "CrashLoopBackOff":
        last = (container.get("lastState") or {}).get("terminated") or {}
        return Trouble(f"{reason}: container {container['name']} keeps exiting: {_ending(last)}", True)
    if reason in _START:
        return Trouble(f"{reason}: container {container['name']}: {waiting.get('message', '')}".rstrip(": "), True)
    ended = state.get("terminated") or {}
    if ended and ended.get("exitCode", 0) != 0:
        return Trouble(f"container {container['name']} failed: {_ending(ended)}", True)
    return None


def _ending(terminated: Object) -> str:
    if terminated.get("reason") == "OOMKilled":
        return "OOMKilled: it exceeded its memory limit"
    words = f"exit status {terminated.get('exitCode', '?')}"
    reason = terminated.get("reason") or ""
    message = (terminated.get("message") or "").strip()
    return words + (f", {reason}" if reason not in ("", "Error") else "") + (f": {message}" if message else "")


def _last_warning(events: Sequence[Object]) -> Trouble | None:
    warnings = [event for event in events if event.get("type") == "Warning"]
    if not warnings:
        return None
    last = max(warnings, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    return Trouble(f"{last.get('reason', 'Warning')}: {last.get('message', '')}".rstrip(": "))


def _condition(thing: Object, kind: str) -> Object:
    conditions = (thing.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), {})


def _asked(container: Object, resource: str) -> int:
    resources = container.get("resources") or {}
    value = (resources.get("limits") or {}).get(resource) or (resources.get("requests") or {}).get(resource) or "0"
    return whole(value)
