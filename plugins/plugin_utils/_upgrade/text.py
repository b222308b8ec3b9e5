# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of an upgrade as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils._words import abridged
from .model import OTHER_PACKAGES
from .plan import FIRST, LEAVE, NONE

# The packages kubeadm and kubectl have the version of the kubelet.
_LABELS = {
    "kubernetes": "control plane",
    "etcd": "etcd",
    "kubelet": "kubelet",
    **dict(zip(OTHER_PACKAGES, OTHER_PACKAGES, strict=True)),
}
_POLICIES = {
    "defer": "nodes whose GPUs are in use are deferred to a later run",
    "drain": "jobs are evicted",
    "ignore": "jobs continue on nodes that are not drained, at their risk",
    "refuse": "nothing changes while GPUs are in use",
    "signal": "jobs are evicted, with time to save",
    "wait": "jobs are waited for; nodes on which they do not end are deferred",
}


def lines(plan: Mapping[str, Any]) -> list[str]:
    """Return the plan for a person."""
    if not plan["pending"] and not plan["refusals"]:
        return [f"Kubernetes {plan['to']} is on all hosts of this run.", *plan["notes"]]
    return list(_lines(plan))


def _lines(plan: Mapping[str, Any]) -> Iterator[str]:
    yield f"Kubernetes {plan['from']} -> {plan['to']}"
    control_planes, workers = plan["order"]["control_planes"], plan["order"]["workers"]
    if control_planes:
        gap = plan["gap_seconds"]
        waits = f"the API does not answer for up to {gap} s" if gap else "the API answers meanwhile"
        yield f"Control planes, one at a time ({waits}): {', '.join(control_planes)}"
        for name, change in plan["cluster"].items():
            yield from _change(name, change["from"], change["to"])
    if workers:
        policy = _POLICIES.get(plan["policy"], plan["policy"])
        yield f"Then workers, {plan['serial']} at a time ({policy}): {', '.join(workers)}"
    for name, entry in plan["hosts"].items():
        yield from _host(name, entry)
    yield from plan["notes"]
    for reason in plan["refusals"]:
        yield f"REFUSED: {reason}"


def _host(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    if entry["step"] != NONE:
        seconds = f" (about {entry['seconds']} s)" if entry["seconds"] else ""
        state = {FIRST: ", first", LEAVE: ": skipped, because the node is not ready"}.get(entry["step"], "")
        yield f"{name}{state}{seconds}"
        for part, label in _LABELS.items():
            yield from _change(label, entry["from"].get(part, ""), entry["to"].get(part, ""))
        yield from (f"  uses its GPUs: {each}" for each in abridged(entry["jobs"]))
        yield from (f"  evicted: {each}" for each in abridged(entry["evicted"]) if each not in entry["jobs"])
        yield from (f"  to pull: {each}" for each in entry["missing_images"])
    for role, changes in entry["pending"].items():
        yield f"{name}: pending, with gpulab.kubernetes.site: {role} ({', '.join(changes)})"


def _change(label: str, before: str, after: str) -> Iterator[str]:
    # A new minor of etcd writes what the former one can't read.
    if before != after:
        moved = label == _LABELS["etcd"] and before.split(".")[:2] != after.split(".")[:2]
        yield f"  {label} {before or 'unknown'} -> {after}{' (undone only by a restore)' if moved else ''}"
