# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The StorageClass of local directories: what keeps it from being made, and what of it may be removed. Pure.

``found`` are objects as the API gives them, ``wanted`` the manifests of the provisioner and of its class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .._cluster import objects
from .._cluster.objects import Object
from . import volumes

PROVISIONER = "rancher.io/local-path"
_CLASS, _NAMESPACE, _VOLUME = "StorageClass", "Namespace", "PersistentVolume"
_HOLDINGS = ("Pod", "PersistentVolumeClaim")
# As the provisioner calls the pods that make and remove directories.
_HELPER = "helper-pod-"


@dataclass(frozen=True)
class Removal:
    """``refused``: why nothing may be removed, empty if something may. ``kept``: what stays, as a sentence."""

    refused: str
    removed: Sequence[Object]
    kept: str


def obstacle(found: Sequence[Object], wanted: Sequence[Object]) -> str:
    """Why the provisioner and its class can't be made, as a sentence; empty if nothing stands in the way."""
    theirs = [each for each in found if not objects.is_ours(each) and _in_the_way(each, wanted)]
    if theirs:
        return f"{_not_ours(theirs)}. {_advice(theirs)}"
    classes = [each for each in found if each["kind"] == _CLASS]
    return next((words for each in wanted if each["kind"] == _CLASS for words in [_class_obstacle(classes, each)]), "")


def removal(found: Sequence[Object], wanted: Sequence[Object]) -> Removal:
    """What goes, in this order. Objects that something else made are not touched."""
    there = {objects.key(each): each for each in found}
    present = [each for each in reversed(wanted) if objects.key(each) in there]
    theirs = [each for each in present if each["kind"] != _NAMESPACE and not objects.is_ours(there[objects.key(each)])]
    if theirs:
        return Removal(f"{_not_ours(theirs)}. Remove it with the tool that created it, or choose another name", [], "")
    holders = _holders(found, wanted)
    if holders:
        return Removal(
            f"claims have volumes of this class: {', '.join(holders)}. Delete them, or keep the class", [], ""
        )
    kept = {
        objects.name(each): words
        for each in present
        if each["kind"] == _NAMESPACE
        for words in [_kept(there[objects.key(each)], found)]
        if words
    }
    removed = [each for each in present if each["kind"] != _NAMESPACE or objects.name(each) not in kept]
    return Removal("", removed, " ".join(f"The namespace {name} stays: {words}." for name, words in kept.items()))


def _holders(found: Iterable[Object], wanted: Iterable[Object]) -> list[str]:
    there = [each for each in found if each["kind"] == _VOLUME]
    names = [objects.name(each) for each in wanted if each["kind"] == _CLASS]
    return [claim for name in names for claim in volumes.claims_of_class(there, name)]


def _kept(namespace: Object, found: Iterable[Object]) -> str:
    """Why a namespace stays."""
    if not objects.is_ours(namespace):
        return "it was not created by this collection"
    others = sorted(
        _words(each)
        for each in found
        if each["kind"] in _HOLDINGS
        and each["metadata"].get("namespace") == objects.name(namespace)
        and not objects.is_ours(each)
        and not objects.name(each).startswith(_HELPER)
    )
    return f"it contains objects that do not belong to the provisioner: {', '.join(others)}" if others else ""


def _class_obstacle(classes: Iterable[Object], wanted: Object) -> str:
    name, default = objects.name(wanted), _is_default(wanted)
    for found in classes:
        if objects.name(found) != name:
            if default and _is_default(found):
                return (
                    f"StorageClass {objects.name(found)} is already the default of this cluster. Set "
                    "local_path_default_class to false"
                )
        elif found.get("reclaimPolicy") != wanted["reclaimPolicy"]:
            return (
                f"StorageClass {name} has the reclaim policy {found.get('reclaimPolicy')} instead of "
                f"{wanted['reclaimPolicy']}, and Kubernetes can't change it. Choose another "
                "local_path_class, or remove it first with local_path_state=absent"
            )
    return ""


def _in_the_way(found: Object, wanted: Iterable[Object]) -> bool:
    """Two provisioners of one name would both answer each claim."""
    return found.get("provisioner") == PROVISIONER or objects.key(found) in map(objects.key, wanted)


def _advice(theirs: Iterable[Object]) -> str:
    kinds = {each["kind"] if each.get("provisioner") != PROVISIONER else "" for each in theirs}
    if kinds == {_NAMESPACE}:
        return "Choose another local_path_namespace"
    if kinds == {_CLASS}:
        return "Choose another local_path_class"
    return (
        "Use the existing class, and remove local_path from cluster_storage, or remove it with the tool that created it"
    )


def _not_ours(theirs: Sequence[Object]) -> str:
    verb = "was" if len(theirs) == 1 else "were"
    return f"{', '.join(map(_words, theirs))} {verb} not created by this collection"


def _words(each: Object) -> str:
    kind, namespace, name = objects.key(each)
    return f"{kind} {namespace + '/' if namespace else ''}{name}"


def _is_default(found: Object) -> bool:
    return (found["metadata"].get("annotations") or {}).get(volumes.DEFAULT_CLASS) == "true"
