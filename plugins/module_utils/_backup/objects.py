# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out which objects of a cluster a restore of its snapshot loses. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .._words import listing
from .database import Database, Key
from .pods import PODS, read_uid

REGISTRY = "/registry/"
# Its uid is that of the cluster.
_CLUSTER = f"{REGISTRY}namespaces/kube-system"
# The keys whose values are needed.
VALUES = (PODS, _CLUSTER)
# The plurals of kinds whose keys have other names.
_PLURALS = {"minions": "nodes", "controllers": "replicationcontrollers", "ingress": "ingresses"}
_SERVICES = {"specs": "services", "endpoints": "endpoints"}
# Kubernetes writes these again itself, many of them every few seconds.
_OF_KUBERNETES = frozenset(
    (
        *("certificatesigningrequests", "endpoints", "endpointslices", "events", "ipaddresses"),
        *("leases", "masterleases", "peerserverleases", "ranges"),
    )
)
_MOST_NAMES = 5


@dataclass(frozen=True)
class Place:
    """An object; ``kind`` is its plural, with the group of one that a custom resource defines."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Losses:
    """Objects that are lost, that return to an earlier state, and that were deleted and exist again."""

    lost: tuple[Place, ...] = ()
    changed: tuple[Place, ...] = ()
    returning: tuple[Place, ...] = ()


def place(key: str) -> Place | None:
    """Return the object of a key, None if it is not one of Kubernetes' objects."""
    parts = key[len(REGISTRY) :].split("/") if key.startswith(REGISTRY) else [""]
    kind, names = _PLURALS.get(parts[0], parts[0]), parts[1:]
    if parts[0] == "services" and len(parts) > 2:
        kind, names = _SERVICES.get(parts[1], ""), parts[2:]
    elif "." in parts[0] and len(parts) > 2:
        # Only the groups of custom resources, and of resources that are not built into Kubernetes, are in the keys.
        kind, names = f"{parts[1]}.{parts[0]}", parts[2:]
    if not kind or not 1 <= len(names) <= 2 or not all(names):
        return None
    return Place(kind, names[0] if len(names) > 1 else "", names[-1])


def losses(old: Mapping[str, Key], snapshot: Mapping[str, Key]) -> Losses:
    """Compare the keys of a cluster with those of its snapshot, without what Kubernetes itself writes again."""
    lost, changed, returning = [], [], []
    for key in sorted({*old, *snapshot}):
        found = place(key)
        if found is None or found.kind in _OF_KUBERNETES:
            continue
        if key not in snapshot:
            lost.append(found)
        elif key not in old:
            returning.append(found)
        elif old[key].changed != snapshot[key].changed:
            changed.append(found)
    return Losses(tuple(lost), tuple(changed), tuple(returning))


def have_same_past(old: Database, snapshot: Database) -> bool:
    """Return whether both are of the same cluster, and the snapshot is not the newer one."""
    uids = [read_uid(each.keys[_CLUSTER].value) if _CLUSTER in each.keys else "" for each in (old, snapshot)]
    return bool(uids[0]) and uids[0] == uids[1] and old.revision >= snapshot.revision


def by_kind(places: Iterable[Place]) -> list[str]:
    """Return lines with the number of objects by kind and namespace, and the first names."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in places:
        found.setdefault((each.kind, each.namespace), []).append(each.name)
    lines = []
    for (kind, namespace), names in sorted(found.items()):
        more = len(names) - _MOST_NAMES
        shown = listing([*names[:_MOST_NAMES], *([f"and {more} more"] if more > 0 else [])])
        lines.append(f"{len(names)} {kind}{f' in {namespace}' if namespace else ''}: {shown}")
    return lines
