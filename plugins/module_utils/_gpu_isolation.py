# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeping new pods from a node whose GPUs are ill, and giving it back: what differs, as a patch of the node.

The node's annotations remember why, since when, how, and whether somebody had cordoned it before: that stays.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.module_utils._api import Api, ApiError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError

Object = Mapping[str, Any]

TAINT, CORDON = "taint", "cordon"
POLICIES = (TAINT, CORDON)
TAINT_KEY = "gpulab.io/gpu-isolated"
REASON, SINCE = "gpulab.io/gpu-isolation-reason", "gpulab.io/gpu-isolation-since"
POLICY, CORDONED = "gpulab.io/gpu-isolation-policy", "gpulab.io/gpu-isolation-was-cordoned"
# How often somebody else may change the node in between.
_ATTEMPTS = 5
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
    have = node["metadata"].get("annotations") or {}
    if POLICY not in have:
        return None
    return Isolation(have.get(REASON, ""), have.get(SINCE, ""), have[POLICY], have.get(CORDONED) == "true")


def isolate(node: Object, policy: str, reason: str, now: str) -> dict[str, Any] | None:
    """The merge patch that isolates a node in this way and for this reason, None where that is so.

    A node that is isolated already keeps its time, and whether it was cordoned before.
    """
    known = isolation(node)
    cordoned = _cordoned(node)
    # While there is our taint alone, a cordon is somebody else's.
    before = cordoned if known is None or policy != known.policy == TAINT else known.was_cordoned
    wanted = Isolation(reason or known.reason, known.since or now, policy, before) if known else None
    wanted = wanted or Isolation(reason, now, policy, before)
    stays = known.was_cordoned if known and known.policy == CORDON else cordoned
    taints = _others(node) + ([_taint()] if policy == TAINT else [])
    return _patch(node, wanted, taints, policy == CORDON or stays)


def give_back(node: Object) -> dict[str, Any] | None:
    """The merge patch that ends an isolation, None where there is none. Who was cordoned before stays so."""
    known = isolation(node)
    if known is None:
        return None
    return _patch(node, None, _others(node), _cordoned(node) if known.policy == TAINT else known.was_cordoned)


def _patch(node: Object, wanted: Isolation | None, taints: list[Any], cordoned: bool) -> dict[str, Any] | None:
    spec: dict[str, Any] = {}
    if taints != ((node.get("spec") or {}).get("taints") or []):
        spec["taints"] = taints or None
    if cordoned != _cordoned(node):
        spec["unschedulable"] = cordoned or None
    have = node["metadata"].get("annotations") or {}
    told = _told(wanted)
    annotations = {key: told.get(key) for key in _ANNOTATIONS if told.get(key) != have.get(key)}
    if not spec and not annotations:
        return None
    # Taints are replaced as a whole: with the version, nobody's change from in between is lost.
    metadata = {"resourceVersion": node["metadata"].get("resourceVersion"), "annotations": annotations}
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


def _cordoned(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _others(node: Object) -> list[Any]:
    """The taints without ours. The one of a cordon is the API server's affair, which adds and removes it."""
    return [taint for taint in (node.get("spec") or {}).get("taints") or [] if taint.get("key") != TAINT_KEY]


def _taint() -> dict[str, str]:
    return {"key": TAINT_KEY, "value": "true", "effect": "NoSchedule"}


class Nodes:
    """The nodes of a cluster. With ``check_mode`` nothing is changed, and all is told as if it were."""

    def __init__(self, api: Api, check_mode: bool) -> None:
        self._api = api
        self._check_mode = check_mode

    def isolate(self, name: str, policy: str, reason: str, now: str) -> dict[str, Any]:
        """The module's result; raises DomainError."""
        return self._change(name, lambda node: isolate(node, policy, reason, now))

    def give_back(self, name: str) -> dict[str, Any]:
        """The module's result; raises DomainError."""
        return self._change(name, give_back)

    def _change(self, name: str, plan: Callable[[Object], dict[str, Any] | None]) -> dict[str, Any]:
        path = f"/api/v1/nodes/{name}"
        for attempt in range(_ATTEMPTS):
            node = self._api.find(path)
            if node is None:
                raise DomainError(f"Error while isolating node {name}: the cluster has no node of this name")
            patch = plan(node)
            if patch is None or self._check_mode:
                return _result(node, merged(node, patch or {}), patch is not None)
            try:
                return _result(node, self._api.merge(path, patch), True)
            except ApiError as error:
                if error.status != 409 or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError


def merged(node: Object, patch: Mapping[str, Any]) -> dict[str, Any]:
    """The node after a merge patch (RFC 7386)."""
    found = copy.deepcopy(dict(node))
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            found[key] = merged(found.get(key) or {}, value)
        else:
            found[key] = value
    return found


def _result(before: Object, after: Object, changed: bool) -> dict[str, Any]:
    known = isolation(after) or isolation(before)
    return {
        "changed": changed,
        "diff": {"before": _shown(before), "after": _shown(after)},
        "isolated": isolation(after) is not None,
        "isolation": known.fields() if known else {},
    }


def _shown(node: Object) -> dict[str, Any]:
    have = node["metadata"].get("annotations") or {}
    return {
        "annotations": {key: have[key] for key in _ANNOTATIONS if key in have},
        "taints": (node.get("spec") or {}).get("taints") or [],
        "cordoned": _cordoned(node),
    }
