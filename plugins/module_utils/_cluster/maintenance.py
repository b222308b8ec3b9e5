# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take a node out of service for one purpose, and release it in its former state.

Everything that a later run needs is in an annotation of the node, one per purpose, which is written in the same request
that cordons or taints the node. So after any interruption, the next run knows the former state and resumes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from .._errors import DomainError
from . import identity, nodes, records
from .api import Api
from .drain import DrainError, described, drain, pods_on, refuse_unmanaged, to_evict, wait_for_jobs
from .nodes import Object, annotations_of, cordoned, labels_of, taints_of
from .objects import full_name, is_lost
from .records import (
    CORDON,
    DISRUPTION,
    DRIVER_UPGRADE,
    KUBERNETES_UPGRADE,
    PURPOSES,
    SHARING,
    TAINT,
    Record,
    key,
    record_of,
)
from .waiting import until_gone
from .watching import Watch

TAINT_KEY = "gpulab.io/gpu-isolated"
_TAINT = {"key": TAINT_KEY, "value": "true", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Plan:
    """Changes for a maintenance.

    ``labels`` are set. Existing labels with the value "true" and a prefix in ``pause`` are set to paused, which makes
    the pods ``leaving`` (NAMESPACE/value of their label ``app``) leave the node. The pods ``jobs`` (UIDs) have
    ``grace`` seconds to end before they are killed or, without ``drain``, before the wait for them ends. If the node
    ``leaves`` the cluster and its kubelet does not report, its pods are not waited for. If it is ``cautious``, no pod
    is evicted before all could be, and jobs are not waited for if other pods can't be evicted.
    """

    policy: str = CORDON
    drain: bool = False
    jobs: Collection[str] = ()
    grace: float = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    pause: Sequence[str] = ()
    leaving: Sequence[str] = ()
    failure: str = ""
    timeout: float = 600
    leaves: bool = False
    cautious: bool = False


def work_on(node: Object) -> str:
    """Return the annotation of unfinished maintenance on the node, empty if none; isolation does not count.

    A node that was cordoned for maintenance and then uncordoned manually is in use, whatever the annotation contains.
    """
    for purpose in (SHARING, DRIVER_UPGRADE, KUBERNETES_UPGRADE, DISRUPTION):
        record = record_of(node, purpose)
        if record and (record.policy != CORDON or cordoned(node)):
            return key(purpose)
    return ""


def begun(purpose: str, data: Mapping[str, Any], plan: Plan, node: Object) -> dict[str, Any] | None:
    """Return the merge patch that takes the node out of service. Keys that are already in the record are kept."""
    known = record_of(node, purpose)
    # If only this change makes the policy a cordon, an existing cordon is not ours.
    kept = known is not None and (known.policy == CORDON or plan.policy != CORDON)
    before = known.cordoned if known and kept else _cordoned_by_hand(node, purpose)
    record = replace(
        known or Record(),
        cordoned=before,
        data={**data, **(known.data if known else {})},
        failure=plan.failure,
        policy=plan.policy,
    )
    return _patch(node, purpose, record, plan.policy == CORDON or _stays_cordoned(node, purpose))


def ended(purpose: str, node: Object) -> dict[str, Any] | None:
    """Return the merge patch that releases the node in its former state, None without a record."""
    known = record_of(node, purpose)
    if known is None:
        return None
    return _patch(node, purpose, None, _stays_cordoned(node, purpose), known.labels)


def _cordons(node: Object, purpose: str) -> list[Record]:
    """Return the records of other purposes that have cordoned the node."""
    records = (record_of(node, other) for other in PURPOSES if other != purpose)
    return [record for record in records if record and record.policy == CORDON]


def _cordoned_by_hand(node: Object, purpose: str) -> bool:
    return cordoned(node) and all(record.cordoned for record in _cordons(node, purpose))


def _stays_cordoned(node: Object, purpose: str) -> bool:
    """Return whether the node is cordoned independently of this purpose."""
    known = record_of(node, purpose)
    if known is None or known.policy != CORDON:
        return cordoned(node)
    return known.cordoned or (cordoned(node) and bool(_cordons(node, purpose)))


def _failed(purpose: str, failure: str, node: Object) -> dict[str, Any] | None:
    known = record_of(node, purpose) or Record(_cordoned_by_hand(node, purpose))
    return _patch(node, purpose, replace(known, failure=failure), True, known.labels)


def _returned(purpose: str, node: Object) -> dict[str, Any] | None:
    known = record_of(node, purpose)
    return _patch(node, purpose, known, cordoned(node), known.labels) if known else None


def _relabelled(purpose: str, plan: Plan, node: Object) -> dict[str, Any] | None:
    """Return the merge patch that sets the labels and records their former values."""
    known, now = record_of(node, purpose) or Record(_cordoned_by_hand(node, purpose)), labels_of(node)
    paused = [name for name, value in now.items() if value == "true" and name.startswith(tuple(plan.pause))]
    wanted = {**plan.labels, **dict.fromkeys(paused, f"paused-for-{purpose}")}
    former = {name: now.get(name) for name, value in wanted.items() if now.get(name) != value}
    return _patch(node, purpose, replace(known, labels={**former, **known.labels}), cordoned(node), wanted)


def _patch(
    node: Object, purpose: str, record: Record | None, cordon: bool, labels: Mapping[str, str | None] | None = None
) -> dict[str, Any] | None:
    """Return a merge patch, None if the node is already in this state. Taints of other purposes are kept."""
    known = record_of(node, purpose)
    spec: dict[str, Any] = {}
    if TAINT in {each.policy for each in (known, record) if each}:
        # The API server itself adds and removes the taint of a cordon.
        others = [taint for taint in taints_of(node) if taint.get("key") != TAINT_KEY]
        taints = others + ([_TAINT] if record and record.policy == TAINT else [])
        if taints != taints_of(node):
            spec["taints"] = taints or None
    if cordon != cordoned(node):
        spec["unschedulable"] = cordon or None
    text = None if record is None else json.dumps(asdict(record), sort_keys=True)
    annotations = {key(purpose): text} if annotations_of(node).get(key(purpose)) != text else {}
    differing = {name: value for name, value in (labels or {}).items() if labels_of(node).get(name) != value}
    if not (spec or annotations or differing):
        return None
    # With the version, a concurrent change is neither lost nor recorded as the former state.
    metadata = {"resourceVersion": node["metadata"].get("resourceVersion")}
    parts = {"annotations": annotations, "labels": differing}
    metadata.update({name: part for name, part in parts.items() if part})
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


class Maintenance:
    """Maintenance of one node for ``purpose``. ``before`` is the node at the start, ``node`` its current state.

    With ``check`` nothing is changed, and ``node`` is the predicted state. ``claim`` is a value of the lookup
    node_identity, ``warnings`` are sentences. Raises DomainError for an unreliable record, and for a node that is not
    that of the host in ``claim``.
    """

    def __init__(self, api: Api, name: str, purpose: str, check: bool, claim: Mapping[str, Any] | None = None) -> None:
        self._api = api
        self._name = name
        self._purpose = purpose
        self._check = check
        self._doing = f"preparing node {name} for {purpose}"
        self.before = self.node = nodes.get(api, name, self._doing)
        identity.check(self.node, claim)
        self.warnings = [
            f"The annotation {key(purpose)} of node {name} claims {what}, which this collection does not set. It was "
            "ignored, and will be removed with the annotation. Find out who can annotate nodes: docs/security.md"
            for what in reliable(self.node, purpose).ignored
        ]
        self.changed = False
        self.evicted: list[str] = []

    @property
    def record(self) -> Record | None:
        return record_of(self.node, self._purpose)

    def begin(self, data: Mapping[str, Any], plan: Plan) -> None:
        """Take the node out of service and drain it. Raise DrainError, after releasing a node that this call held."""
        fresh = self.record is None
        problem = records.data_problem(self._purpose, data)
        unknown = records.unknown_labels(plan.labels)
        unknown += [name for name in plan.pause if not name.startswith("nvidia.com/")]
        if unknown:
            problem = problem or f"its labels must begin with nvidia.com/ or gpulab.io/, unlike {', '.join(unknown)}"
        if problem:
            raise DomainError(
                f"Error while {self._doing}: the record can't be written, {problem}. Nothing was changed."
            )
        self.change(partial(begun, self._purpose, data, plan))
        try:
            if plan.cautious:
                others = [pod for pod in to_evict(self._pods()) if pod["metadata"].get("uid") not in plan.jobs]
                refuse_unmanaged(self._name, others)
            if plan.drain:
                self._drain(plan)
            elif plan.jobs and not self._check and wait_for_jobs(self._api, self._name, plan.jobs, plan.grace):
                # The caller leaves the node for a later run, so no other pod has to leave it.
                return
        except DrainError:
            if fresh:
                self.end()
            raise
        self.change(partial(_relabelled, self._purpose, plan))
        if plan.leaving and not self._check:
            self._wait_until_gone(plan)

    def let_return(self) -> None:
        """Let the pods that have left return; the node stays out of service."""
        self.change(partial(_returned, self._purpose))

    def fail(self, failure: str) -> None:
        """Leave the node cordoned, with the reason."""
        self.change(partial(_failed, self._purpose, failure))

    def end(self) -> None:
        """Release the node in its former state."""
        self.change(partial(ended, self._purpose))

    def change(self, plan: nodes.Plan) -> None:
        """Change the node with the merge patch that ``plan`` returns for it."""
        if self._check:
            before = self.node
            self.node = nodes.merged(before, plan(before) or {})
        else:
            before, self.node = nodes.change(self._api, self._name, self._doing, plan)
        self.changed |= self.node != before

    def jobs(self, uids: Collection[str]) -> dict[str, str]:
        """Return the pods with these UIDs on the node that have not ended: UID -> name with controller."""
        return described(self._pods(), uids) if uids else {}

    def _drain(self, plan: Plan) -> None:
        if self._check:
            waiting = to_evict(self._pods())
            refuse_unmanaged(self._name, waiting)
            self.evicted = [full_name(pod) for pod in waiting]
        else:
            self.evicted = drain(
                self._api,
                self._name,
                plan.timeout,
                plan.jobs,
                plan.grace,
                lambda: plan.leaves and self._is_lost(),
                plan.cautious,
            )
        self.changed |= bool(self.evicted)

    def _pods(self) -> list[Object]:
        return pods_on(self._api, self._name)

    def _is_lost(self) -> bool:
        return is_lost(nodes.get(self._api, self._name, self._doing))

    def _wait_until_gone(self, plan: Plan) -> None:
        with Watch(self._api) as watch:
            left = until_gone(
                lambda: [full_name(pod) for pod in pods_on(watch, self._name) if _app(pod) in plan.leaving],
                plan.timeout,
                watch,
            )
        if left:
            raise DrainError(
                f"Error while emptying node {self._name}: after {plan.timeout:g} s these pods still hold its GPUs: "
                f"{', '.join(left)}. See kubectl describe pod; the next run resumes."
            )


def reliable(node: Object, purpose: str) -> records.Reading:
    """Return the node's record. Raise DomainError if it is not reliable."""
    reading, name = records.read(node, purpose), node["metadata"].get("name", "")
    if reading.damage:
        raise DomainError(
            f"Error while preparing node {name} for {purpose}: its annotation {key(purpose)} can't be relied on, "
            f"because {reading.damage}. Nothing was changed. If the collection was downgraded, use the newer version "
            "again. Otherwise cordon or uncordon the node as it should be, and remove the annotation: "
            f"kubectl annotate node {name} {key(purpose)}-"
        )
    return reading


def _app(pod: Object) -> str:
    meta = pod["metadata"]
    return f"{meta.get('namespace', 'default')}/{labels_of(pod).get('app', '')}"
