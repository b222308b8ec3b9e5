# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeping new pods from a node whose GPUs are ill, and giving it back: what differs, as a patch of the node.

The node's annotations remember why, since when, how, and whether somebody had cordoned it before: that stays.
A node on whose GPUs somebody works seems ill for that time, and can be left to the one who does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import nodes
from .api import Api
from .nodes import DISRUPTION, DRIVER_UPGRADE, Object, annotations_of, cordoned, labels_of, taints_of
from .sharing import CHANGING_LABEL

TAINT, CORDON = "taint", "cordon"
POLICIES = (TAINT, CORDON)
TAINT_KEY = "gpulab.io/gpu-isolated"
REASON, SINCE = "gpulab.io/gpu-isolation-reason", "gpulab.io/gpu-isolation-since"
POLICY, CORDONED = "gpulab.io/gpu-isolation-policy", "gpulab.io/gpu-isolation-was-cordoned"
_ANNOTATIONS = (REASON, SINCE, POLICY, CORDONED)


@dataclass(frozen=True)
class Isolation:
    """How a node is isolated. ``was_cordoned``: it took no pods before, by another hand."""

    reason: str
    since: str
    policy: str
    was_cordoned: bool

    def fields(self) -> dict[str, Any]:
        return {
            "reason": self.reason,
            "since": self.since,
            "policy": self.policy,
            "was_cordoned": self.was_cordoned,
        }


def isolation(node: Object) -> Isolation | None:
    """What the node's annotations say, None for a node that is not isolated."""
    have = annotations_of(node)
    if POLICY not in have:
        return None
    return Isolation(have.get(REASON, ""), have.get(SINCE, ""), have[POLICY], have.get(CORDONED) == "true")


def work_on(node: Object) -> str:
    """The annotation or label of work on the node that has begun and not ended, empty for none.

    Maintenance cordons the node: who uncordons it says that it is in use, whatever the annotation says.
    """
    if CHANGING_LABEL in labels_of(node):
        return CHANGING_LABEL
    have = annotations_of(node) if cordoned(node) else {}
    return next((key for key in (DRIVER_UPGRADE, DISRUPTION) if key in have), "")


def isolate(node: Object, policy: str, reason: str, now: str) -> dict[str, Any] | None:
    """The merge patch that isolates a node in this way and for this reason, None where that is so.

    A node that is isolated already keeps its time, and whether it was cordoned before.
    """
    known = isolation(node)
    now_cordoned = cordoned(node)
    # While there is our taint alone, a cordon is somebody else's.
    before = now_cordoned if known is None or policy != known.policy == TAINT else known.was_cordoned
    wanted = Isolation(reason or known.reason, known.since or now, policy, before) if known else None
    wanted = wanted or Isolation(reason, now, policy, before)
    stays = known.was_cordoned if known and known.policy == CORDON else now_cordoned
    taints = _others(node) + ([_taint()] if policy == TAINT else [])
    return _patch(node, wanted, taints, policy == CORDON or stays)


def give_back(node: Object) -> dict[str, Any] | None:
    """The merge patch that ends an isolation, None where there is none. Who was cordoned before stays so."""
    known = isolation(node)
    if known is None:
        return None
    return _patch(node, None, _others(node), cordoned(node) if known.policy == TAINT else known.was_cordoned)


def _patch(node: Object, wanted: Isolation | None, taints: list[Any], cordon: bool) -> dict[str, Any] | None:
    spec: dict[str, Any] = {}
    if taints != taints_of(node):
        spec["taints"] = taints or None
    if cordon != cordoned(node):
        spec["unschedulable"] = cordon or None
    have, told = annotations_of(node), _told(wanted)
    differing = {key: told.get(key) for key in _ANNOTATIONS if told.get(key) != have.get(key)}
    if not spec and not differing:
        return None
    # Taints are replaced as a whole: with the version, nobody's change from in between is lost.
    metadata = {"resourceVersion": node["metadata"].get("resourceVersion"), "annotations": differing}
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


def _told(wanted: Isolation | None) -> dict[str, str]:
    if wanted is None:
        return {}
    return {
        REASON: wanted.reason,
        SINCE: wanted.since,
        POLICY: wanted.policy,
        CORDONED: "true" if wanted.was_cordoned else "false",
    }


def _others(node: Object) -> list[Any]:
    """The taints without ours. The one of a cordon is the API server's affair, which adds and removes it."""
    return [taint for taint in taints_of(node) if taint.get("key") != TAINT_KEY]


def _taint() -> dict[str, str]:
    return {"key": TAINT_KEY, "value": "true", "effect": "NoSchedule"}


class Nodes:
    """The nodes of a cluster. With ``check_mode`` nothing is changed, and all is told as if it were."""

    def __init__(self, api: Api, check_mode: bool) -> None:
        self._api = api
        self._check_mode = check_mode

    def isolate(self, name: str, policy: str, reason: str, now: str, during_work: bool) -> dict[str, Any]:
        """The module's result; raises DomainError."""

        def plan(node: Object) -> dict[str, Any] | None:
            return None if work_on(node) and not during_work else isolate(node, policy, reason, now)

        return self._change(name, plan)

    def give_back(self, name: str) -> dict[str, Any]:
        """The module's result; raises DomainError."""
        return self._change(name, give_back)

    def _change(self, name: str, plan: nodes.Plan) -> dict[str, Any]:
        before, after = nodes.change(self._api, name, f"isolating node {name}", plan, self._check_mode)
        return _result(before, after, after is not before)


def _result(before: Object, after: Object, changed: bool) -> dict[str, Any]:
    known = isolation(after) or isolation(before)
    return {
        "changed": changed,
        "diff": {"before": _shown(before), "after": _shown(after)},
        "isolated": isolation(after) is not None,
        "isolation": known.fields() if known else {},
        "work": work_on(after),
    }


def _shown(node: Object) -> dict[str, Any]:
    have = annotations_of(node)
    return {
        "annotations": {key: have[key] for key in _ANNOTATIONS if key in have},
        "taints": taints_of(node),
        "cordoned": cordoned(node),
    }
