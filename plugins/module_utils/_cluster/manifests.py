# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply objects from manifests and find what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .._errors import DomainError
from . import objects
from .api import Api, ApiError
from .objects import Object
from .waiting import until

# Objects of a new resource definition can only be created after a moment.
_ESTABLISHED = 30
# Fields that the API sets itself.
_OWN = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")


@dataclass(frozen=True)
class Change:
    """A changed object; ``name`` is kind and name, with a namespace if any. ``before`` is empty for a new object."""

    name: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


class _Resources:
    """API paths of kinds. Each API group is queried once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, dict[str, Mapping[str, Any]]] = {}

    def path(self, body: Object) -> str:
        """Return the path of an object, empty while the API does not know the kind."""
        group = body["apiVersion"]
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        if body["kind"] not in self._known.get(root, {}):
            listed = (self._api.find(root) or {}).get("resources") or []
            self._known[root] = {each["kind"]: each for each in listed if "/" not in each["name"]}
        found = self._known[root].get(body["kind"])
        if found is None:
            return ""
        namespace = f"/namespaces/{body['metadata'].get('namespace', 'default')}" if found["namespaced"] else ""
        return f"{root}{namespace}/{found['name']}/{body['metadata']['name']}"


def apply(api: Api, definitions: Iterable[Object], manager: str, dry: bool) -> list[Change]:
    """Apply the objects in order (server-side); return those that are, or would be, changed.

    In a dry run, an object whose kind or namespace does not exist yet is considered new.
    """
    resources = _Resources(api)
    changes = []
    for body in definitions:
        path = resources.path(body) if dry else until(partial(resources.path, body), bool, _ESTABLISHED)
        if not path and not dry:
            missing = f"{body['kind']} in {body['apiVersion']}"
            raise DomainError(f"Error while applying {objects.words(body)}: the API has no kind {missing}.")
        before = api.find(path) if path else None
        after = _applied(api, path, body, manager, dry)
        if before is None or shown(before) != shown(after):
            changes.append(Change(objects.words(body), _masked(shown(before or {})), _masked(shown(after))))
    return changes


def removable(
    found: Sequence[Object], wanted: Sequence[Object], contents: Sequence[str] = ("Pod",)
) -> tuple[list[Object], list[Object]]:
    """Return this collection's objects among ``wanted``, last first, and unmanaged ``contents`` of its namespaces.

    Namespaces with unmanaged contents are omitted from the first list.
    """
    there = {objects.key(each) for each in found if objects.is_ours(each)}
    ours = [each for each in reversed(wanted) if objects.key(each) in there]
    spaces = {objects.name(each) for each in ours if each["kind"] == "Namespace"}
    others = [
        each
        for each in sorted(found, key=objects.key)
        if each["kind"] in contents and each["metadata"].get("namespace") in spaces and not objects.is_ours(each)
    ]
    return [each for each in ours if each["kind"] != "Namespace" or not others], others


def _applied(api: Api, path: str, body: Object, manager: str, dry: bool) -> Object:
    if not path:
        return body
    try:
        return api.apply(path, dict(body), manager, dry)
    except ApiError as error:
        # Its namespace is also new.
        if dry and error.status == 404:
            return body
        raise


def _masked(body: dict[str, Any]) -> dict[str, Any]:
    """Return the object for a diff; the API may have put a token into a Secret."""
    if body.get("kind") != "Secret":
        return body
    return {**body, **{key: dict.fromkeys(body[key], "hidden") for key in ("data", "stringData") if body.get(key)}}


def shown(body: Object) -> dict[str, Any]:
    """Return the object without fields that the API sets itself."""
    kept = {key: value for key, value in body.items() if key != "status"}
    if "metadata" in kept:
        kept["metadata"] = {key: value for key, value in kept["metadata"].items() if key not in _OWN}
    return kept
