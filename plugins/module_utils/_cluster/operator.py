# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges how far the GPU Operator has come. Pure: objects of the API in, what is still missing out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import objects
from .objects import Object
from .rollout import Missing, Seen, available, selects, unready

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
READY = "ready"
# The operator's states and the DaemonSets that they are made of (controllers/state_manager.go and assets/, v26.7.0).
OPERANDS = {
    "state-driver": "nvidia-driver-daemonset",
    "state-container-toolkit": "nvidia-container-toolkit-daemonset",
    "state-operator-validation": "nvidia-operator-validator",
    "state-device-plugin": "nvidia-device-plugin-daemonset",
    "state-mps-control-daemon": "nvidia-device-plugin-mps-control-daemon",
    "state-dcgm": "nvidia-dcgm",
    "state-dcgm-exporter": "nvidia-dcgm-exporter",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "state-mig-manager": "nvidia-mig-manager",
    "state-node-status-exporter": "nvidia-node-status-exporter",
}
# Reasons of a Ready that means: there was nothing to do, because no node is known to have GPUs.
_NO_NODES = {
    "NFDLabelsMissing": "node feature discovery has not labeled a node yet",
    "NoGPUNodes": "node feature discovery has found no node with GPUs",
}
_STATES = re.compile(r"states not ready: \[([^\]]*)\]")


def missing(name: str, seen: Seen, gpus: bool = True) -> list[Missing]:
    """Why the operator is not ready yet, operand by operand; nothing when it is. ``gpus``: some nodes have GPUs."""
    policy = next((found for found in seen.policies if objects.name(found) == name), None)
    if policy is None:
        return [*_deployments(seen), Missing("", f"there is no ClusterPolicy {name}")]
    state = (policy.get("status") or {}).get("state") or ""
    # The operator takes the oldest, and writes no status into the others.
    first = min(
        seen.policies, key=lambda found: (found["metadata"].get("creationTimestamp") or "", objects.name(found))
    )
    if first is not policy and not state:
        text = f"the operator ignores the ClusterPolicy {name}, because there is {objects.name(first)} too"
        return [Missing("", text, final=True)]
    late = [*_deployments(seen), *_late(seen)]
    if state == READY:
        reason = _condition(policy, "Ready").get("reason")
        if not gpus or reason not in _NO_NODES:
            return late
        return [*late, *_others(seen), Missing("", _NO_NODES[reason])]
    said = _said(policy)
    waiting = _STATES.search(said)
    named = {found.text.split(":", 1)[0] for found in late}
    states = waiting[1].split() if waiting else []
    rest = [each for each in states if f"operand {OPERANDS.get(each, each)}" not in named]
    late += [
        Missing("", f"operand {OPERANDS.get(each, each)}: the operator reports that it is not ready") for each in rest
    ]
    if late and waiting:
        return late
    return [*late, Missing("", said or f"the ClusterPolicy {name} has no state yet")]


def _late(seen: Seen) -> Iterator[Missing]:
    for daemonset in seen.daemonsets:
        if _is_operand(daemonset) and not _complete(daemonset):
            what = f"operand {objects.name(daemonset)}"
            yield from _pods_of(daemonset, what, seen) or [Missing("", f"{what}: {_count(daemonset)}")]


def _others(seen: Seen) -> Iterator[Missing]:
    """What comes with the operator, such as the workers of node feature discovery."""
    for daemonset in seen.daemonsets:
        if not _is_operand(daemonset) and not _complete(daemonset):
            what = f"DaemonSet {objects.name(daemonset)}"
            yield from _pods_of(daemonset, what, seen) or [Missing("", f"{what}: {_count(daemonset)}")]


def _is_operand(daemonset: Object) -> bool:
    return any(owner["kind"] == "ClusterPolicy" for owner in daemonset["metadata"].get("ownerReferences") or [])


def _complete(daemonset: Object) -> bool:
    status = daemonset.get("status") or {}
    wanted = status.get("desiredNumberScheduled", 0)
    # Operands that must not be changed under a running pod are replaced by hand (OnDelete).
    strategy = (daemonset["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate")
    current = status.get("updatedNumberScheduled", 0) if strategy == "RollingUpdate" else wanted
    observed = status.get("observedGeneration", 0) >= daemonset["metadata"].get("generation", 0)
    return bool(observed and min(current, status.get("numberAvailable", 0)) >= wanted)


def _count(daemonset: Object) -> str:
    status = daemonset.get("status") or {}
    return f"{status.get('numberAvailable', 0)} of {status.get('desiredNumberScheduled', 0)} pods are ready"


def _pods_of(workload: Object, what: str, seen: Seen) -> list[Missing]:
    return [unready(pod, what, seen) for pod in seen.pods if selects(workload, pod) and not objects.is_ready(pod)]


def _deployments(seen: Seen) -> Iterator[Missing]:
    """The operator itself and what helps it: one that is being replaced says nothing of the new state yet."""
    for deployment in seen.deployments:
        former = (deployment.get("status") or {}).get("replicas", 0) > deployment["spec"].get("replicas", 1)
        if former or not available(deployment):
            what = f"Deployment {objects.name(deployment)}"
            yield from _pods_of(deployment, what, seen) or [Missing("", f"{what} is not available yet")]


def _said(policy: Object) -> str:
    """What the operator says in its conditions: the error, else why it is not ready."""
    error = _condition(policy, "Error")
    if error.get("status") == "True":
        return str(error.get("message") or error.get("reason") or "")
    return str(_condition(policy, "Ready").get("message") or "")


def _condition(policy: Object, kind: str) -> Object:
    conditions = (policy.get("status") or {}).get("conditions") or []
    found: Object = next((each for each in conditions if each["type"] == kind), {})
    return found
