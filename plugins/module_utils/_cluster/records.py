# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of maintenance in the annotations of a node. Pure functions.

A kubelet may annotate its own node, and other software any node. Therefore a record is parsed into known fields, and
only values that this collection can have written are used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._json import as_mapping, as_text
from .nodes import LABEL_NAME, LABEL_VALUE, Object, annotations_of

DRIVER_UPGRADE, DISRUPTION, SHARING, ISOLATION = "driver-upgrade", "disruption", "gpu-sharing", "gpu-isolation"
KUBERNETES_UPGRADE = "kubernetes-upgrade"
PURPOSES = (DRIVER_UPGRADE, DISRUPTION, SHARING, ISOLATION, KUBERNETES_UPGRADE)
# How new pods are kept away: all pods, pods that do not tolerate a taint, or pods that avoid a label.
CORDON, TAINT, LABEL = "cordon", "taint", "label"

_LARGEST = 64 * 1024
_LABELS = re.compile(rf"(?:nvidia\.com|gpulab\.io)/{LABEL_NAME}")
_VERSION = re.compile(r"(?:[0-9]{1,4}(?:\.[0-9]{1,4}){0,3})?")
_PACKAGE = {"name": re.compile(r"[a-z0-9][-a-z0-9+.]{0,127}"), "version": re.compile(r"[A-Za-z0-9.+~:-]{1,127}")}
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,255}")
_RESOURCE = re.compile(r"nvidia\.com/[-A-Za-z0-9_.]{1,63}")
_AMOUNT = re.compile(r"[0-9]{1,6}")
_TIME = re.compile(r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?")


@dataclass(frozen=True)
class Record:
    """State of the node before maintenance: whether it was ``cordoned``; former ``labels``, None for absent ones.

    ``failure`` is why the node must not be used, ``policy`` how new pods are kept away.
    """

    cordoned: bool = False
    labels: Mapping[str, str | None] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    policy: str = CORDON


@dataclass(frozen=True)
class Reading:
    """A parsed record, None without an annotation. ``damage`` ends a sentence about why it is unreliable.

    ``ignored`` names restored values that this collection never sets.
    """

    record: Record | None = None
    damage: str = ""
    ignored: tuple[str, ...] = ()


def key(purpose: str) -> str:
    """Return the name of the node's annotation with the record."""
    return f"gpulab.io/{purpose}"


def read(node: Object, purpose: str) -> Reading:
    text = annotations_of(node).get(key(purpose))
    return _parsed(text, purpose) if text else Reading()


def record_of(node: Object, purpose: str) -> Record | None:
    """Return the node's record; a damaged one still means that the node is under maintenance."""
    return read(node, purpose).record


def offered(node: Object, record: Record | None) -> dict[str, str]:
    """Return the GPU resources that a node offered before its maintenance, those in the record first."""
    recorded = dict(record.data.get("offered") or {}) if record else {}
    capacity = as_mapping(as_mapping(node.get("status")).get("capacity"))
    amounts = {name: as_text(amount) for name, amount in capacity.items() if _RESOURCE.fullmatch(name)}
    return recorded or {name: amount for name, amount in amounts.items() if amount.isdigit() and int(amount)}


def unknown_labels(labels: Mapping[str, Any]) -> list[str]:
    """Return the names of labels that a record can't contain."""
    return [name for name in labels if not _LABELS.fullmatch(str(name))]


def data_problem(purpose: str, data: Mapping[str, Any]) -> str:
    """Return why a record for this purpose can't contain these data, as the end of a sentence."""
    known = _DATA.get(purpose, {})
    for name, value in data.items():
        if name not in known:
            return f"its data have the unknown field {_short(name)}"
        if not known[name](value):
            return f"the field {name} of its data is not valid: {_short(value)}"
    return ""


def _parsed(text: str, purpose: str) -> Reading:
    if len(text) > _LARGEST:
        return Reading(Record(), f"it is longer than {_LARGEST} characters")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return Reading(Record(), "it is not JSON")
    if not isinstance(found, dict):
        return Reading(Record(), "it is not a mapping")
    right = {name: found[name] for name, is_right in _FIELDS.items() if name in found and is_right(found[name])}
    former = right.get("labels", {})
    labels = {name: value for name, value in former.items() if _LABELS.fullmatch(name) and _is_former(value)}
    damage = next(_damages(found, right, purpose), "")
    ignored = tuple(f"the label {_short(name)}" for name in former if name not in labels)
    data = {} if damage else right.get("data", {})
    return Reading(Record(**{**right, "labels": labels, "data": data}), damage, ignored)


def _damages(found: Mapping[str, Any], right: Mapping[str, Any], purpose: str) -> Iterator[str]:
    for name in found:
        if name not in _FIELDS:
            yield f"it has the field {_short(name)}, which this version of the collection does not know"
        elif name not in right:
            yield f"its field {name} is not valid: {_short(found[name])}"
    if "cordoned" not in found:
        yield "it does not say whether the node was cordoned before"
    problem = data_problem(purpose, right.get("data", {}))
    if problem:
        yield problem


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_former(value: Any) -> bool:
    return value is None or (isinstance(value, str) and bool(LABEL_VALUE.fullmatch(value)))


def _matches(form: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and bool(form.fullmatch(value))


def _is_package(value: Any) -> bool:
    return value == {} or (
        isinstance(value, dict)
        and value.keys() == _PACKAGE.keys()
        and all(_matches(form)(value[name]) for name, form in _PACKAGE.items())
    )


def _are_units(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 64 and all(map(_matches(_UNIT), value))


def _are_amounts(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= 64
        and all(map(_matches(_RESOURCE), value))
        and all(_AMOUNT.fullmatch(str(amount)) for amount in value.values())
    )


_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "cordoned": lambda value: isinstance(value, bool),
    "labels": lambda value: isinstance(value, dict),
    "data": lambda value: isinstance(value, dict),
    "failure": lambda value: isinstance(value, str),
    "policy": lambda value: value in (CORDON, TAINT, LABEL),
}
_DATA: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    DRIVER_UPGRADE: {
        "from": _matches(_VERSION),
        "package": _is_package,
        "services": _are_units,
        "offered": _are_amounts,
    },
    ISOLATION: {"since": _matches(_TIME)},
    KUBERNETES_UPGRADE: {"from": _matches(_VERSION), "to": _matches(_VERSION), "offered": _are_amounts},
}
