# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out which running pods end after a restore of a snapshot, and who owns them. Pure functions.

A kubelet ends each pod that the API server does not know, or that it knows as another node's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .._json import as_mapping, as_mappings, as_text
from .._words import counted
from .database import Key
from .protobuf import ProtobufError, Value, fields

PODS = "/registry/pods/"
_PROTOBUF, _JSON = b"k8s\0", b"{"
# Fields of Unknown, Pod, ObjectMeta, OwnerReference and PodSpec (generated.proto of k8s.io/api and apimachinery).
_RAW, _METADATA, _SPEC = 2, 1, 2
_UID, _DELETION, _OWNERS = 5, 9, 13
_KIND, _NAME, _CONTROLLER = 1, 3, 6
_NODE = 10
# Labels of a pod, which the container runtime has, too, and the kinds of the owners that they show.
_JOBS = ("batch.kubernetes.io/job-name", "job-name")
_ORDINAL = "statefulset.kubernetes.io/pod-name"
_HASHES = {"pod-template-hash": "ReplicaSet", "pod-template-generation": "DaemonSet"}
OWNER_LABELS = (*_JOBS, _ORDINAL, *_HASHES)


@dataclass(frozen=True)
class StoredPod:
    """A pod in a database. ``owner`` is KIND/NAME. Texts are empty if they can't be read, as those of encrypted pods.

    ``deleted`` pods end in any case.
    """

    uid: str = ""
    node: str = ""
    owner: str = ""
    deleted: bool = False


@dataclass(frozen=True)
class RunningPod:
    """A pod whose containers run on a node. ``gpus`` is their number; a ``static`` pod does not need the API."""

    uid: str
    namespace: str
    name: str
    gpus: int = 0
    owner: str = ""
    static: bool = False

    @property
    def label(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class EndingPod:
    """A running pod that ends, and the reason."""

    node: str
    pod: RunningPod
    owner: str
    why: str

    def __str__(self) -> str:
        gpus = f" with {counted(self.pod.gpus, 'GPU')}" if self.pod.gpus else ""
        owner = f" of {self.owner}" if self.owner else ""
        return f"{self.pod.label}{owner}{gpus} on {self.node}: {self.why}"


def stored_pods(keys: Mapping[str, Key]) -> dict[str, StoredPod]:
    """Return the pods in a database by NAMESPACE/NAME."""
    return {key[len(PODS) :]: read_pod(each.value) for key, each in keys.items() if key.startswith(PODS)}


def read_pod(value: bytes) -> StoredPod:
    """Parse a pod as the API server stores it."""
    if value.startswith(_JSON):
        return _pod_of_json(value)
    parts = _message(value)
    metadata, spec = (_parsed(_first(parts, number)) for number in (_METADATA, _SPEC))
    owners = [dict(_parsed(each)) for number, each in metadata if number == _OWNERS]
    owners.sort(key=lambda each: not each.get(_CONTROLLER))
    names = [_text(owners[0].get(number)) for number in (_KIND, _NAME)] if owners else []
    deleted = any(number == _DELETION for number, _value in metadata)
    return StoredPod(_text(_first(metadata, _UID)), _text(_first(spec, _NODE)), "/".join(names), deleted)


def read_uid(value: bytes) -> str:
    """Return the uid of any object as the API server stores it, empty if it can't be read."""
    if value.startswith(_JSON):
        return _pod_of_json(value).uid
    return _text(_first(_parsed(_first(_message(value), _METADATA)), _UID))


def owner_of(labels: Mapping[str, str], name: str) -> str:
    """Return the owner of a running pod from its labels as KIND/NAME, empty if they don't show one."""
    job = next((labels[label] for label in _JOBS if labels.get(label)), "")
    if job:
        return f"Job/{job}"
    if labels.get(_ORDINAL):
        return f"StatefulSet/{re.sub('-[0-9]+$', '', name)}"
    kind = next((kind for label, kind in _HASHES.items() if labels.get(label)), "")
    return f"{kind}/{name.rpartition('-')[0]}" if kind else ""


def ending_pods(
    running: Mapping[str, Iterable[RunningPod]], snapshot: Mapping[str, StoredPod], old: Mapping[str, StoredPod]
) -> list[EndingPod]:
    """Return the pods that end, those with the most GPUs first.

    ``running`` are those of each node, by its name. ``old`` are those of the cluster before the restore, by
    NAMESPACE/NAME as those of the ``snapshot``; they only show owners, and may be unknown.
    """
    found = []
    for node, pods in sorted(running.items()):
        for pod in pods:
            why = "" if pod.static else _why(node, pod, snapshot.get(pod.label))
            if why:
                before = old.get(pod.label, StoredPod())
                found.append(EndingPod(node, pod, before.owner if before.uid == pod.uid else pod.owner, why))
    return sorted(found, key=lambda each: (-each.pod.gpus, each.node, each.pod.label))


def _why(node: str, pod: RunningPod, stored: StoredPod | None) -> str:
    if stored is None:
        return "it was created after the snapshot"
    if stored.uid and stored.uid != pod.uid:
        return "it was created again after the snapshot"
    if stored.uid and stored.node != node:
        return f"in the snapshot, it is {f'on {stored.node}' if stored.node else 'not on a node yet'}"
    return "in the snapshot, it is being deleted" if stored.deleted else ""


def _message(value: bytes) -> Sequence[tuple[int, Value]]:
    """Return the fields of an object, empty if it is encrypted or not in the form of Kubernetes."""
    return _parsed(_first(_parsed(value[len(_PROTOBUF) :]), _RAW)) if value.startswith(_PROTOBUF) else ()


def _parsed(data: Value | None) -> Sequence[tuple[int, Value]]:
    try:
        return list(fields(data)) if isinstance(data, bytes) else ()
    except ProtobufError:
        return ()


def _first(parts: Iterable[tuple[int, Value]], number: int) -> Value | None:
    return next((value for each, value in parts if each == number), None)


def _text(value: Value | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _pod_of_json(value: bytes) -> StoredPod:
    try:
        found = as_mapping(json.loads(value))
    except (ValueError, RecursionError):
        return StoredPod()
    metadata = as_mapping(found.get("metadata"))
    owners = sorted(as_mappings(metadata.get("ownerReferences")), key=lambda each: each.get("controller") is not True)
    owner = "/".join(as_text(owners[0].get(key)) for key in ("kind", "name")) if owners else ""
    node = as_text(as_mapping(found.get("spec")).get("nodeName"))
    return StoredPod(as_text(metadata.get("uid")), node, owner, "deletionTimestamp" in metadata)
