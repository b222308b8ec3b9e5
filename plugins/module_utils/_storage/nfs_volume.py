# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create a volume on an NFS server with its claim, or remove both without deleting the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from .._cluster import manifests, objects
from .._cluster.api import Api
from .._cluster.objects import OWNER, OWNER_LABEL, Object
from .._cluster.waiting import until, until_gone
from .._errors import DomainError
from . import volumes

_BINDING = 60.0
_REMOVAL = 60.0
_MANAGER = "gpulab.kubernetes"
_VOLUME, _CLAIM = "PersistentVolume", "PersistentVolumeClaim"
_LABELS = {OWNER_LABEL: OWNER, "app.kubernetes.io/part-of": "nfs-cache"}


@dataclass(frozen=True)
class Wanted:
    """Name and source of a claim."""

    namespace: str
    claim: str
    server: str = ""
    path: str = ""
    capacity: str = ""
    reclaim_policy: str = "Retain"
    mount_options: tuple[str, ...] = ()

    @property
    def volume(self) -> str:
        """The name of the volume; volumes have no namespace."""
        return f"{self.namespace}-{self.claim}"

    def manifests(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the volume and the claim, which are bound to each other only."""
        size = {"storage": self.capacity}
        modes = ["ReadWriteMany"]
        reference = {"apiVersion": "v1", "kind": _CLAIM, "name": self.claim, "namespace": self.namespace}
        volume = {
            "apiVersion": "v1",
            "kind": _VOLUME,
            "metadata": {"name": self.volume, "labels": _LABELS},
            "spec": {
                "accessModes": modes,
                "capacity": size,
                "claimRef": reference,
                "mountOptions": list(self.mount_options),
                "nfs": {"server": self.server, "path": self.path},
                "persistentVolumeReclaimPolicy": self.reclaim_policy,
                "storageClassName": "",
            },
        }
        claim = {
            "apiVersion": "v1",
            "kind": _CLAIM,
            "metadata": {"name": self.claim, "namespace": self.namespace, "labels": _LABELS},
            "spec": {
                "accessModes": modes,
                "resources": {"requests": size},
                "storageClassName": "",
                "volumeName": self.volume,
            },
        }
        return volume, claim


class NfsVolume:
    """A PersistentVolume on an NFS server and the PersistentVolumeClaim bound to it."""

    def __init__(self, api: Api, wanted: Wanted) -> None:
        self._api, self._wanted = api, wanted
        self._core = f"/api/v1/namespaces/{wanted.namespace}"
        self._volume_path = f"/api/v1/persistentvolumes/{wanted.volume}"
        self._claim_path = f"{self._core}/persistentvolumeclaims/{wanted.claim}"
        self._name = f"{wanted.namespace}/{wanted.claim}"

    def present(self, dry: bool) -> list[manifests.Change]:
        """Create or update both. Raise DomainError before anything changes if existing objects can't be changed."""
        doing = f"Error while creating the claim {self._name}"
        if self._api.find(self._core) is None:
            raise DomainError(
                f"{doing}: there is no namespace {self._wanted.namespace}. Create it first. Nothing was changed."
            )
        volume, claim = self._wanted.manifests()
        for path, body in ((self._volume_path, volume), (self._claim_path, claim)):
            if words := volumes.obstacle(self._api.find(path), body):
                raise DomainError(f"{doing}: {words} Nothing was changed.")
        changes = manifests.apply(self._api, [volume, claim], _MANAGER, dry)
        if not dry:
            self._wait(doing)
        return changes

    def absent(self, dry: bool) -> list[str]:
        """Remove both and return their kinds and names; the volume's reclaim policy is set to Retain first."""
        doing = f"Error while removing the claim {self._name}"
        found = {path: self._api.find(path) for path in (self._claim_path, self._volume_path)}
        if (volume := found[self._volume_path]) and not volumes.belongs_to(volume, self._wanted.manifests()[0]):
            found[self._volume_path] = None
        there = {path: each for path, each in found.items() if each}
        kinds = {self._claim_path: _CLAIM, self._volume_path: _VOLUME}
        for path, each in there.items():
            if not objects.is_ours(each):
                raise DomainError(
                    f"{doing}: {kinds[path]} {objects.name(each)} was not created by this collection, and stays."
                )
        using = volumes.users(self._api.items(f"{self._core}/pods"), self._wanted.claim) if there else []
        if using:
            raise DomainError(
                f"{doing}: pods use it: {', '.join(using)}. Delete them or wait until they end, and run again. "
                "Nothing was changed."
            )
        if not dry:
            self._delete(doing, there)
        return [f"{kinds[path]} {objects.name(each)}" for path, each in there.items()]

    def _delete(self, doing: str, there: Mapping[str, Object]) -> None:
        policy = there.get(self._volume_path, {}).get("spec", {}).get("persistentVolumeReclaimPolicy", "Retain")
        if policy != "Retain":
            self._api.merge(self._volume_path, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        for path in there:
            self._api.delete(path)
            if until_gone(partial(self._api.find, path), _REMOVAL):
                raise DomainError(f"{doing}: {path.rpartition('/')[2]} is still there after {_REMOVAL:.0f} s.")

    def _wait(self, doing: str) -> None:
        def look() -> Object:
            return self._api.find(self._claim_path) or {}

        found = until(look, lambda each: (each.get("status") or {}).get("phase") == "Bound", _BINDING)
        phase = (found.get("status") or {}).get("phase") or "gone"
        if phase != "Bound":
            raise DomainError(
                f"{doing}: it is {phase} after {_BINDING:.0f} s, but not bound to {self._wanted.volume}. See kubectl "
                f"--namespace {self._wanted.namespace} describe pvc {self._wanted.claim}"
            )
