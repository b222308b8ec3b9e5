# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read nodes from the API, and change them without losing concurrent changes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._errors import DomainError
from .api import Api, ApiError

Object = Mapping[str, Any]
Plan = Callable[[Object], "dict[str, Any] | None"]

NODES = "/api/v1/nodes"
# Kubernetes' syntax of labels: the name after the prefix, and the value.
LABEL_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_VALUE = re.compile(rf"(?:{LABEL_NAME})?")
_CONFLICT = 409
# The kubelet and controllers also change nodes.
_TRIES = 5


def path(name: str) -> str:
    return f"{NODES}/{name}"


def cordoned(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def annotations_of(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("annotations") or {}


def labels_of(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def taints_of(node: Object) -> list[Any]:
    return (node.get("spec") or {}).get("taints") or []


def untolerated_taint(node: Object, tolerations: Sequence[Object], ignored: tuple[str, ...] = ()) -> str:
    """Return a taint that keeps new pods with these tolerations away, empty if none.

    ``ignored``: key prefixes of taints that do not count.
    """
    for taint in taints_of(node):
        counts = taint["effect"] != "PreferNoSchedule" and not taint["key"].startswith(ignored)
        if counts and not any(_tolerates(each, taint) for each in tolerations):
            return f"{taint['key']}{'=' * bool(taint.get('value'))}{taint.get('value') or ''}:{taint['effect']}"
    return ""


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return (toleration.get("key"), toleration.get("value") or "") == (taint["key"], taint.get("value") or "")


def get(api: Api, name: str, doing: str) -> Object:
    """Return a node. Raise DomainError (``Error while <doing>``) if it does not exist."""
    node = api.find(path(name))
    if node is None:
        raise DomainError(f"Error while {doing}: the cluster has no node of this name")
    return node


def change(api: Api, name: str, doing: str, plan: Plan) -> tuple[Object, Object]:
    """Apply the merge patch that ``plan`` returns; return the node before and after, the same object if unchanged.

    Lists such as taints are replaced as a whole: a plan that changes one includes the node's resourceVersion, and is
    computed again after a conflict. Raise DomainError (``Error while <doing>``) if the node does not exist.
    """
    for left in reversed(range(_TRIES)):
        node = get(api, name, doing)
        patch = plan(node)
        if not patch:
            return node, node
        try:
            return node, api.merge(path(name), patch)
        except ApiError as error:
            if error.status != _CONFLICT or not left:
                raise
    raise AssertionError


def merged(node: Object, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the node after a merge patch (RFC 7386)."""
    found = copy.deepcopy(dict(node))
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            found[key] = merged(found.get(key) or {}, value)
        else:
            found[key] = value
    return found
