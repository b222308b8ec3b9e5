# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Determine what the GPU Operator still lacks, from objects of the API. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from . import objects
from .objects import Object
from .rollout import Missing, Seen, available, selects, unready

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
READY = "ready"
# Lease for the operator's leader election (cmd/gpu-operator/main.go, v26.7.0).
LEASE = "53822513.nvidia.com"
_RECONCILED = "Reconciled"
_GPU_LABEL = "nvidia.com/gpu.present"
# Label for the state of a node's driver upgrade, and the states in which the operator has nothing to do.
_UPGRADE_LABEL = "nvidia.com/gpu-driver-upgrade-state"
_UPGRADE_FAILED = "upgrade-failed"
_UPGRADED = ("", "upgrade-done")
# The operator's states and their DaemonSets (controllers/state_manager.go and assets/, v26.7.0).
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
_STATES = re.compile(r"states not ready: \[([^\]]*)\]")


def missing(name: str, seen: Seen, gpu_nodes: Collection[str] = (), only: Collection[str] = ()) -> list[Missing]:
    """Return why the operator is not ready, by operand; empty if it is ready.

    ``gpu_nodes`` must be served: until Node Feature Discovery has labeled one, the operator creates no operands but
    reports that it is ready. With ``only``, operands on other nodes and the policy's state, which covers all nodes, do
    not count.
    """
    policy = next((found for found in seen.policies if objects.name(found) == name), None)
    if policy is None:
        return [*_deployments(seen), Missing("", f"there is no ClusterPolicy {name}")]
    state = (policy.get("status") or {}).get("state") or ""
    oldest = min(seen.policies, key=_age)
    if not state and oldest is not policy:
        older = f"because {objects.name(oldest)} is older"
        return [Missing("", f"the operator ignores the ClusterPolicy {name}, {older}", final=True)]
    unlabelled = list(_unlabelled(gpu_nodes, seen))
    late = [*_deployments(seen), *_leader(seen), *_late(seen, bool(unlabelled), only), *unlabelled]
    late += _upgrading(gpu_nodes, seen)
    if only:
        return late
    reason = str(_condition(policy, "Ready").get("reason") or "")
    if state == READY and gpu_nodes and reason != _RECONCILED:
        return [*late, Missing("", f"the operator has created no operands yet ({reason or 'no reason given'})")]
    if state == READY:
        return late
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


def _age(policy: Object) -> tuple[str, str]:
    """Return a sort key: the operator serves the oldest ClusterPolicy, among equals the first by name."""
    return str(policy["metadata"].get("creationTimestamp") or ""), objects.name(policy)


def _unlabelled(gpu_nodes: Collection[str], seen: Seen) -> Iterator[Missing]:
    for node in seen.nodes:
        labels = node["metadata"].get("labels") or {}
        if objects.name(node) in gpu_nodes and labels.get(_GPU_LABEL) != "true":
            yield Missing(objects.name(node), f"the operator has not found its GPUs yet (label {_GPU_LABEL}=true)")


def _upgrading(gpu_nodes: Collection[str], seen: Seen) -> Iterator[Missing]:
    for node in seen.nodes:
        state = (node["metadata"].get("labels") or {}).get(_UPGRADE_LABEL, "")
        if objects.name(node) in gpu_nodes and state not in _UPGRADED:
            text = f"the operator is changing the driver (label {_UPGRADE_LABEL}={state})"
            yield Missing(objects.name(node), text, final=state == _UPGRADE_FAILED)


def _leader(seen: Seen) -> Iterator[Missing]:
    """Yield a problem if the operator is not the leader yet; the status is then still the former leader's."""
    for lease in seen.leases:
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "").partition("_")[0]
        if holder not in [objects.name(pod) for pod in seen.pods if objects.is_ready(pod)]:
            yield Missing("", f"the operator is not the leader yet (lease {LEASE}, held by {holder or 'no pod'})")


def _late(seen: Seen, unlabelled: bool, only: Collection[str]) -> Iterator[Missing]:
    """Yield incomplete operands and, while nodes are unlabeled, the feature discovery."""
    for daemonset in seen.daemonsets:
        owners = [owner["kind"] for owner in daemonset["metadata"].get("ownerReferences") or []]
        owned = "ClusterPolicy" in owners
        if not (owned or unlabelled) or _complete(daemonset):
            continue
        what = f"{'operand' if owned else 'DaemonSet'} {objects.name(daemonset)}"
        pods = _pods_of(daemonset, what, seen)
        if only:
            yield from (pod for pod in pods if pod.node in only)
        else:
            yield from pods or [Missing("", f"{what}: {_count(daemonset)}")]


def _complete(daemonset: Object) -> bool:
    status = daemonset.get("status") or {}
    wanted = status.get("desiredNumberScheduled", 0)
    # Operands that must not be changed under running pods are replaced manually (OnDelete).
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
    """Yield problems of the operator and its helpers, including a pending replacement."""
    for deployment in seen.deployments:
        former = (deployment.get("status") or {}).get("replicas", 0) > deployment["spec"].get("replicas", 1)
        if former or not available(deployment):
            what = f"Deployment {objects.name(deployment)}"
            yield from _pods_of(deployment, what, seen) or [Missing("", f"{what} is not available yet")]


def _said(policy: Object) -> str:
    """Return the operator's error message, otherwise why it is not ready."""
    error = _condition(policy, "Error")
    if error.get("status") == "True":
        return str(error.get("message") or error.get("reason") or "")
    return str(_condition(policy, "Ready").get("message") or "")


def _condition(policy: Object, kind: str) -> Object:
    conditions: list[Object] = (policy.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})
