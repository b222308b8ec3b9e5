# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the creation and removal of the StorageClass for local directories. Pure functions.

``found`` are objects from the API, ``wanted`` the manifests of the provisioner and its class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .._cluster import manifests, objects
from .._cluster.objects import Object
from . import volumes

PROVISIONER = "rancher.io/local-path"
_CLASS, _NAMESPACE, _VOLUME = "StorageClass", "Namespace", "PersistentVolume"
_HOLDINGS = ("Pod", "PersistentVolumeClaim")
# Name prefix of the provisioner's pods that create and remove directories.
_HELPER = "helper-pod-"


@dataclass(frozen=True)
class Plan:
    """Sentences or empty: ``obstacle`` why the class can't be created, ``refused`` why nothing may be removed.

    ``removed`` is in the order of removal; ``kept`` is a sentence about what stays.
    """

    obstacle: str
    refused: str = ""
    removed: Sequence[Object] = ()
    kept: str = ""


def plan(found: Sequence[Object], wanted: Sequence[Object]) -> Plan:
    """Return the plan; unmanaged objects are not changed."""
    foreign = {objects.key(each) for each in found if not objects.is_ours(each)}
    theirs = [each for each in reversed(wanted) if objects.key(each) in foreign]
    parts = [each for each in theirs if each["kind"] != _NAMESPACE]
    obstacle = _obstacle(found, wanted)
    if parts:
        return Plan(obstacle, f"{_not_ours(parts)}. Remove it with the tool that created it, or choose another name")
    holders = _holders(found, wanted)
    if holders:
        refused = f"claims have volumes of this class: {', '.join(holders)}. Delete them, or keep the class"
        return Plan(obstacle, refused)
    own = [each for each in found if not objects.name(each).startswith(_HELPER)]
    removed, others = manifests.removable(own, wanted, _HOLDINGS)
    kept = ""
    if theirs:
        kept = f"The namespace {objects.name(theirs[0])} stays: it was not created by this collection."
    elif others:
        kept = (
            f"The namespace {others[0]['metadata']['namespace']} stays: it contains objects that do not belong to the "
            f"provisioner: {', '.join(map(objects.words, others))}."
        )
    return Plan(obstacle, "", removed, kept)


def _obstacle(found: Sequence[Object], wanted: Sequence[Object]) -> str:
    theirs = [each for each in found if not objects.is_ours(each) and _in_the_way(each, wanted)]
    if theirs:
        return f"{_not_ours(theirs)}. {_advice(theirs)}"
    classes = [each for each in found if each["kind"] == _CLASS]
    return next((words for each in wanted if each["kind"] == _CLASS for words in [_class_obstacle(classes, each)]), "")


def _holders(found: Iterable[Object], wanted: Iterable[Object]) -> list[str]:
    there = [each for each in found if each["kind"] == _VOLUME]
    names = [objects.name(each) for each in wanted if each["kind"] == _CLASS]
    return [claim for name in names for claim in volumes.claims_of_class(there, name)]


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
    """Return whether an object conflicts; two provisioners of one name would both answer each claim."""
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
    return f"{', '.join(map(objects.words, theirs))} {verb} not created by this collection"


def _is_default(found: Object) -> bool:
    return (found["metadata"].get("annotations") or {}).get(volumes.DEFAULT_CLASS) == "true"
