# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the patch for a node's declared labels and taints. Pure functions.

An annotation records what this collection has set on the node; nothing else is ever removed. Because others can write
annotations, only what a declaration may contain is used from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._errors import DomainError
from . import objects
from .nodes import LABEL_NAME, LABEL_VALUE, annotations_of, labels_of
from .objects import Object

ANNOTATION = "gpulab.io/node-pool"
EFFECTS = ("NoSchedule", "PreferNoSchedule")
Taint = tuple[str, str]  # key and effect, a unique pair on a node

_QUOTE = "put it in quotes ('' is empty)"
_KEY = re.compile(rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{LABEL_NAME}")
# Labels that Kubernetes and feature discovery set themselves.
_RESERVED = re.compile(r"(?:.*\.)?(?:kubernetes\.io|k8s\.io)/.*|nvidia\.com/.*")
_ALLOWED = re.compile(r"node-role\.kubernetes\.io/(?!(?:control-plane|master)\Z).*")
# Taints that pods such as DNS tolerate, or that are temporary.
_HARMLESS = re.compile(r"node-role\.kubernetes\.io/control-plane|node\.kubernetes\.io/.*")


@dataclass(frozen=True)
class Wanted:
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Mapping[Taint, str] = field(default_factory=dict)


@dataclass
class Plan:
    """``patch`` is a merge patch, empty without changes; ``before`` and ``after`` are the managed labels and taints."""

    patch: dict[str, Any] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)


def problems(labels: Mapping[Any, Any], taints: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return all errors in a declaration, as ends of sentences."""
    return list(_unclear(labels, taints)) or list(malformed(wanted(labels, taints)))


def wanted(labels: Mapping[str, Any], taints: Sequence[Mapping[str, Any]]) -> Wanted:
    """Parse a declaration. Raise DomainError for errors."""
    unclear = list(_unclear(labels, taints))
    if unclear:
        raise DomainError(f"Error while reading labels and taints of a node: {'; '.join(unclear)}")
    return Wanted(
        dict(labels),
        {(taint["key"], taint.get("effect") or EFFECTS[0]): taint.get("value") or "" for taint in taints},
    )


def _unclear(labels: Mapping[Any, Any], taints: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for key, value in labels.items():
        for what, text in (("key", key), ("value", value)):
            if not isinstance(text, str):
                yield f"the {what} of the label {key} is not a string: {text!r}; {_QUOTE}"
    seen = set()
    for taint in taints:
        wrong = [what for what in ("key", "value", "effect") if not isinstance(taint.get(what, ""), str)]
        for what in wrong:
            yield f"the {what} of the taint {taint['key']} is not a string: {taint[what]!r}; {_QUOTE}"
        found = (str(taint["key"]), str(taint.get("effect") or EFFECTS[0]))
        if found in seen:
            yield f"the taint {found[0]}:{found[1]} occurs twice, but a node can have it only once"
        seen.add(found)


def malformed(want: Wanted) -> Iterator[str]:
    """Yield what the API would reject or what must not be set by users, as ends of sentences."""
    for key, value in want.labels.items():
        if not _KEY.fullmatch(key):
            yield f"the label {key!r} has a key that Kubernetes does not accept"
        elif not LABEL_VALUE.fullmatch(value):
            yield f"the label {key} has a value that Kubernetes does not accept: {value!r}"
        elif _RESERVED.fullmatch(key) and not _ALLOWED.fullmatch(key):
            yield f"the label {key} is set by Kubernetes or feature discovery itself"
    for (key, effect), value in want.taints.items():
        if not _KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
            yield f"the taint {key}={value} is not valid in Kubernetes"
        elif _HARMLESS.fullmatch(key):
            yield f"the taint {key} is set by Kubernetes itself"
        elif effect not in EFFECTS:
            yield f"the taint {key} has the effect {effect}, which ends running pods; choose {' or '.join(EFFECTS)}"


def contested(node: Object, want: Wanted) -> Iterator[str]:
    """Yield conflicts with unmanaged labels and taints, as ends of sentences."""
    own_labels, own_taints = _own(node)
    for key, value in want.labels.items():
        have = labels_of(node).get(key)
        if have not in (None, value) and own_labels.get(key) != have:
            yield f"it has the label {key}={have}, which is not managed by this collection, instead of {value!r}"
    for taint, value in want.taints.items():
        have = _taints(node).get(taint)
        if have not in (None, value) and own_taints.get(taint) != have:
            name = f"{taint[0]}={have}:{taint[1]}"
            yield f"it has the taint {name}, which is not managed by this collection, instead of {value!r}"


def plan(node: Object, want: Wanted) -> Plan:
    """Return the plan to set what is wanted and remove what was wanted before; unmanaged changes are kept."""
    own_labels, own_taints = _own(node)
    labels, taints = labels_of(node), _taints(node)
    gone = [key for key in own_labels if key not in want.labels and labels.get(key) == own_labels[key]]
    left = {taint for taint in own_taints if taint not in want.taints and taints.get(taint) == own_taints[taint]}
    mine = {key: value for key, value in want.labels.items() if key in own_labels or key not in labels}
    my_taints = {taint: value for taint, value in want.taints.items() if taint in own_taints or taint not in taints}
    result = Plan(before=_shown(labels, taints, own_labels, own_taints))
    set_labels = {key: value for key, value in mine.items() if labels.get(key) != value}
    if set_labels or gone:
        result.patch["metadata"] = {"labels": {**set_labels, **dict.fromkeys(gone, None)}}
    if left or any(taints.get(taint) != value for taint, value in my_taints.items()):
        others = [
            each for each in node["spec"].get("taints") or [] if _id(each) not in left and _id(each) not in my_taints
        ]
        result.patch["spec"] = {"taints": others + [_taint(*entry) for entry in my_taints.items()]}
    record = _record(mine, my_taints)
    if _annotation(node) != record:
        result.patch.setdefault("metadata", {})["annotations"] = {ANNOTATION: record}
    if result.patch:
        # Taints are a single list, so concurrent changes to it must be detected.
        result.patch.setdefault("metadata", {})["resourceVersion"] = node["metadata"].get("resourceVersion")
    result.after = _shown({**labels, **mine}, {**taints, **my_taints}, mine, my_taints)
    return result


def homeless(nodes: Sequence[Object], wishes: Mapping[str, Wanted]) -> bool:
    """Return whether no node would be left for pods that tolerate no pool's taint, such as the cluster's DNS."""

    def closed(node: Object) -> bool:
        want = wishes.get(objects.name(node))
        present = {taint for taint in _taints(node) if not want or taint not in _own(node)[1]}
        keys = [*present, *(want.taints if want else ())]
        return any(effect != "PreferNoSchedule" and not _HARMLESS.fullmatch(key) for key, effect in keys)

    return any(want.taints for want in wishes.values()) and all(closed(node) for node in nodes)


def _taints(node: Object) -> dict[Taint, str]:
    return {_id(taint): taint.get("value") or "" for taint in node["spec"].get("taints") or []}


def _id(taint: Object) -> Taint:
    return taint["key"], taint["effect"]


def _taint(taint: Taint, value: str) -> dict[str, str]:
    return {"key": taint[0], **({"value": value} if value else {}), "effect": taint[1]}


def _annotation(node: Object) -> str | None:
    return annotations_of(node).get(ANNOTATION)


def _own(node: Object) -> tuple[dict[str, str], dict[Taint, str]]:
    """Return what this collection has set. An unreadable record counts as empty."""
    labels, taints, _ignored = _read(node)
    return labels, taints


def ignored(node: Object) -> list[str]:
    """Return which parts of the record are ignored, as ends of sentences."""
    return _read(node)[2]


def _read(node: Object) -> tuple[dict[str, str], dict[Taint, str], list[str]]:
    try:
        found = json.loads(_annotation(node) or "{}")
        if found.keys() - {"labels", "taints"}:
            return {}, {}, ["has fields that this version of the collection does not know"]
        labels = {str(key): str(value) for key, value in found.get("labels", {}).items()}
        taints = {
            (str(taint["key"]), str(taint["effect"])): str(taint.get("value", "")) for taint in found.get("taints", [])
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}, {}, ["is damaged"]
    wrong = {key for key, value in labels.items() if any(malformed(Wanted({key: value})))}
    wrong_taints = {taint for taint, value in taints.items() if any(malformed(Wanted({}, {taint: value})))}
    words = [
        *(f"claims the label {key!a:.80}, which pools can't set" for key in labels if key in wrong),
        *(
            f"claims the taint {':'.join(taint)!a:.80}, which pools can't set"
            for taint in taints
            if taint in wrong_taints
        ),
    ]
    return (
        {key: value for key, value in labels.items() if key not in wrong},
        {taint: value for taint, value in taints.items() if taint not in wrong_taints},
        words,
    )


def _record(labels: Mapping[str, str], taints: Mapping[Taint, str]) -> str | None:
    if not labels and not taints:
        return None
    listed = [_taint(*entry) for entry in sorted(taints.items())]
    return json.dumps({"labels": dict(sorted(labels.items())), "taints": listed}, sort_keys=True)


def _shown(
    labels: Mapping[str, str], taints: Mapping[Taint, str], own: Mapping[str, str], own_taints: Mapping[Taint, str]
) -> dict[str, Any]:
    return {
        "labels": {key: labels[key] for key in sorted(own) if key in labels},
        "taints": [
            f"{key}={taints[key, effect]}:{effect}" for key, effect in sorted(own_taints) if (key, effect) in taints
        ],
    }
