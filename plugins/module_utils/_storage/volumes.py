# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare volumes, claims and classes from the API with wanted ones, and find their users. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .._cluster import objects
from .._cluster.objects import Object
from .._cluster.quantities import quantity

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_RENAME = "Choose another nfs_cache_claim."
_REMOVE = "First remove the claim and the volume (nfs_cache_state=absent, which keeps the data), and run again."
_STALE = ("Released", "Failed")


def obstacle(found: Object | None, wanted: Object) -> str:
    """Return why an existing volume or claim can't be changed to the wanted one, with advice; empty if it can."""
    if found is None:
        return ""
    what = f"{wanted['kind']} {objects.name(wanted)}"
    if not objects.is_ours(found):
        return f"{what} was not created by this collection. {_RENAME}"
    if not belongs_to(found, wanted):
        return f"{what} belongs to the claim {_claim(found)}. {_RENAME}"
    differing = [f"{key} {_short(was)} instead of {_short(will)}" for key, was, will in _differences(found, wanted)]
    if differing:
        return f"{what} has {'; '.join(differing)}, but Kubernetes can't change it. {_REMOVE}"
    phase = (found.get("status") or {}).get("phase") or ""
    if wanted["kind"] == "PersistentVolume" and phase in _STALE:
        return f"{what} is {phase} because its claim was deleted, and accepts no other claim. {_REMOVE}"
    return ""


def belongs_to(found: Object, wanted: Object) -> bool:
    """Return whether a volume is bound to the wanted claim or unbound; two claims can have the same volume name."""
    return wanted["kind"] != "PersistentVolume" or not _claim(found) or _claim(found) == _claim(wanted)


def users(pods: Iterable[Object], claim: str) -> list[str]:
    """Return the pods in the claim's namespace that have it mounted, or will when they start."""
    return sorted(
        objects.name(pod)
        for pod in pods
        if objects.phase(pod) not in ("Succeeded", "Failed") and claim in claim_names(pod["spec"])
    )


def claim_names(spec: Object) -> list[str]:
    """Return the claims in a pod's specification."""
    sources = (volume.get("persistentVolumeClaim") or {} for volume in spec.get("volumes") or [])
    return [source["claimName"] for source in sources if "claimName" in source]


def claims_of_class(volumes: Iterable[Object], name: str) -> list[str]:
    """Return the claims bound to volumes of a class."""
    return sorted(
        f"{claim['namespace']}/{claim['name']}"
        for volume in volumes
        for claim in [volume["spec"].get("claimRef")]
        if claim
        and volume["spec"].get("storageClassName") == name
        and (volume.get("status") or {}).get("phase") == "Bound"
    )


def _differences(found: Object, wanted: Object) -> Iterator[tuple[str, Any, Any]]:
    was, will = found["spec"], wanted["spec"]
    if wanted["kind"] == "PersistentVolume":
        nfs = was.get("nfs") or {}
        before, after = (f"{s.get('server')}:{s.get('path')}" for s in (nfs, will["nfs"]))
        if before != after:
            yield "the source", before, after
        amounts = was["capacity"]["storage"], will["capacity"]["storage"]
    else:
        if was.get("volumeName") != will["volumeName"]:
            yield "the volume", was.get("volumeName") or "none", will["volumeName"]
        amounts = was["resources"]["requests"]["storage"], will["resources"]["requests"]["storage"]
    if quantity(amounts[0]) != quantity(amounts[1]):
        yield "the capacity", *amounts


def _claim(volume: Object) -> str:
    reference = volume["spec"].get("claimRef")
    return f"{reference['namespace']}/{reference['name']}" if reference else ""


def _short(value: Any) -> str:
    return f"{value!s:.200}"
