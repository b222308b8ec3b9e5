# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Isolate and release a node with unhealthy GPUs.

GPUs also look unhealthy during maintenance; isolation can be left to the maintenance then.
"""

from __future__ import annotations

from typing import Any

from .maintenance import Maintenance, Plan, work_on
from .nodes import Object, annotations_of, cordoned, taints_of
from .records import ISOLATION, key, record_of


def isolation(node: Object) -> dict[str, Any]:
    """Return reason, time and policy of a node's isolation, empty if it is not isolated.

    ``was_cordoned``: it was already cordoned, but not by this collection.
    """
    record = record_of(node, ISOLATION)
    if record is None:
        return {}
    since = str(record.data.get("since", ""))
    return {"reason": record.failure, "since": since, "policy": record.policy, "was_cordoned": record.cordoned}


def isolate(work: Maintenance, policy: str, reason: str, now: str, during_work: bool) -> None:
    """Isolate a node. A node that is already isolated keeps its time, and its reason unless a new one is given."""
    if during_work or not work_on(work.node):
        work.begin({"since": now}, Plan(policy=policy, failure=reason or isolation(work.node).get("reason", "")))


def result(work: Maintenance) -> dict[str, Any]:
    """Return the result of the module."""
    return {
        "changed": work.changed,
        "diff": {"before": _shown(work.before), "after": _shown(work.node)},
        "isolated": bool(isolation(work.node)),
        "isolation": isolation(work.node) or isolation(work.before),
        "work": work_on(work.node),
    }


def _shown(node: Object) -> dict[str, Any]:
    return {
        "annotations": {name: text for name, text in annotations_of(node).items() if name == key(ISOLATION)},
        "taints": taints_of(node),
        "cordoned": cordoned(node),
    }
