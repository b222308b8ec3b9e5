# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage verification with an API in memory, whose pods print what the test provides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.api import Api, ApiError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._storage import pods
from ansible_collections.gpulab.kubernetes.plugins.module_utils._storage.check import Check
from ansible_collections.gpulab.kubernetes.plugins.module_utils._storage.nfs_volume import NfsVolume, Wanted

SUM, OTHER = "a" * 64, "b" * 64
SETTINGS = pods.Settings("default", "agnhost:1", 64, 1)
CORE = "/api/v1/namespaces/default"
WANTED = Wanted("default", "cache", "192.0.2.10", "/srv", "1Gi", "Recycle")


class Memory:
    """Objects by path. ``log`` returns the log of a pod, ``status`` its status."""

    def __init__(self, log: Callable[[str], str] = lambda _pod: "") -> None:
        self.objects: dict[str, dict[str, Any]] = {CORE: {"metadata": {"name": "default"}}}
        self.log = log
        self.status: dict[str, Any] = {"phase": "Running"}
        self.freezes = 0
        self.merged: list[tuple[str, Any]] = []
        self.order: list[str] = []

    def find(self, path: str) -> dict[str, Any] | None:
        kinds = {"persistentvolumes": ("PersistentVolume", False), "persistentvolumeclaims": (pods_kind, True)}
        if path == "/api/v1":
            return {"resources": [{"kind": k, "name": n, "namespaced": own} for n, (k, own) in kinds.items()]}
        return self.objects.get(path)

    def items(self, path: str, **_query: str) -> list[dict[str, Any]]:
        return [body for key, body in self.objects.items() if key.rpartition("/")[0] == path]

    def listed(self, path: str, **query: str) -> tuple[list[dict[str, Any]], str]:
        return self.items(path, **query), ""

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        name = body["metadata"]["name"]
        made = {**body, "metadata": {**body["metadata"], "uid": name}}
        if body["kind"] == "Pod":
            made["status"] = self.status
            if self.freezes:
                self.freezes -= 1
                ended = {"reason": "StartError", "exitCode": 128, "message": "unable to freeze"}
                made["status"] = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": ended}}]}
        else:
            made["spec"] = {**body["spec"], "volumeName": f"pv-{name}"}
            self.objects[f"/api/v1/persistentvolumes/pv-{name}"] = {"metadata": {"name": f"pv-{name}"}, "spec": {}}
        self.objects[f"{path}/{name}"] = made
        self.order.append(name)
        return made

    def apply(self, path: str, body: dict[str, Any], _manager: str, dry: bool) -> dict[str, Any]:
        if not dry:
            self.objects[path] = {**body, "status": {"phase": "Bound"}}
        return body

    def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.merged.append((path, body))
        return body

    def delete(self, path: str, **_query: str) -> None:
        self.objects.pop(path, None)
        name = path.rpartition("/")[2]
        if ("persistentvolumes/" + f"pv-{name}") in "".join(self.objects):
            self.objects.pop(f"/api/v1/persistentvolumes/pv-{name}")

    def text(self, path: str, **_query: str) -> str:
        name = path.split("/")[-2]
        said = self.log(name)
        if not said:
            raise ApiError("container is waiting to start", 400)
        return said


pods_kind = "PersistentVolumeClaim"


def line(begun: float, ended: float, checksum: str = SUM) -> str:
    return f"64+0 records in\nstorage-check: {begun:.2f} {ended:.2f} {checksum}\n"


def verify(memory: Memory, nodes: list[str], claim: str = "cache", storage_class: str = "") -> list[dict[str, Any]]:
    return Check(cast(Api, memory), SETTINGS).verify(pods.trips(nodes, claim, storage_class), storage_class)


def test_one_node_writes_and_all_others_read() -> None:
    memory = Memory(lambda pod: line(10, 10.5 if "write" in pod else 10.25))
    results = verify(memory, ["cp1", "gpu1", "gpu2"])
    assert results == [
        {"claim": "cache", "writer": "cp1", "write_mib_per_s": 128.0, "readers": {"gpu1": 256.0, "gpu2": 256.0}}
    ]
    assert memory.order[0] == "storage-check-write-cache"
    assert list(memory.objects) == [CORE]
    assert pods.summary(results, 64) == [
        "a pod on cp1 wrote 64 MiB at 128.0 MiB/s",
        "a pod on gpu1 read them at 256.0 MiB/s",
        "a pod on gpu2 read them at 256.0 MiB/s",
    ]


def test_on_a_single_node_another_pod_reads_without_the_page_cache() -> None:
    results = verify(Memory(lambda _pod: line(1, 1)), ["solo"])
    assert results[0]["readers"] == {"solo": None}
    assert results[0]["write_mib_per_s"] == 6400.0
    assert pods.summary(verify(Memory(lambda _pod: line(1, 1)), ["cp1", "gpu1"]), 64)[1].endswith(
        "more than 6400.0 MiB/s"
    )
    assert pods.summary(results, 64)[1] == "another pod on solo read them from the node's memory"


def test_check_of_a_class_creates_and_deletes_a_volume_for_each_node() -> None:
    memory = Memory(lambda _pod: line(1, 2))
    results = verify(memory, ["gpu1", "gpu2"], "", "local-path")
    assert [(each["claim"], each["writer"]) for each in results] == [
        ("gpulab-check-0", "gpu1"),
        ("gpulab-check-1", "gpu2"),
    ]
    policy = {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
    assert memory.merged == [(f"/api/v1/persistentvolumes/pv-gpulab-check-{n}", policy) for n in (0, 1)]
    assert list(memory.objects) == [CORE]


def test_different_data_is_an_error() -> None:
    memory = Memory(lambda pod: line(1, 2, SUM if "write" in pod else OTHER))
    with pytest.raises(DomainError, match=r"a pod on gpu1 reads other data than a pod on cp1 wrote"):
        verify(memory, ["cp1", "gpu1"])
    assert list(memory.objects) == [CORE]


def test_a_pod_that_cannot_write_is_reported_with_the_reason() -> None:
    memory = Memory(lambda _pod: "mkdir: can't create directory '/claim/.gpulab-check': Permission denied\n")
    ended = {"name": "check", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    memory.status = {"phase": "Failed", "containerStatuses": [ended]}
    with pytest.raises(DomainError, match=r"exit status 1: mkdir: can't create .* Permission denied. Check that each"):
        verify(memory, ["cp1", "gpu1"])
    assert memory.order == ["storage-check-write-cache"]
    assert list(memory.objects) == [CORE]


def test_a_pod_that_does_not_start_is_reported_with_the_reason() -> None:
    memory = Memory()
    memory.status = {"phase": "Pending"}
    pod = pods.writer(SETTINGS, pods.trips(["gpu1"], "cache", "")[0])["metadata"]["name"]
    event = {"type": "Warning", "reason": "FailedMount", "message": "mount.nfs: Connection refused"}
    about = {"metadata": {"name": "one"}, "involvedObject": {"kind": "Pod", "uid": pod}}
    memory.objects[f"{CORE}/events/one"] = {**event, **about}
    with pytest.raises(DomainError, match=r"FailedMount: mount.nfs: Connection refused"):
        verify(memory, ["cp1", "gpu1"])


def test_a_pod_that_could_not_be_frozen_is_created_again() -> None:
    memory = Memory(lambda pod: line(1, 2) if pod.startswith("storage-check") else "")
    memory.freezes = 1
    assert verify(memory, ["cp1", "gpu1"])[0]["write_mib_per_s"] == 64.0
    assert memory.order[:2] == ["storage-check-write-cache", "storage-check-write-cache-again"]


def test_a_claim_can_be_created_and_removed_without_its_data() -> None:
    memory = Memory()
    volume = NfsVolume(cast(Api, memory), WANTED)
    assert [change.name for change in volume.present(True)] == [
        "PersistentVolume default-cache",
        "PersistentVolumeClaim default/cache",
    ]
    assert list(memory.objects) == [CORE]
    volume.present(False)
    assert volume.absent(True) == ["PersistentVolumeClaim cache", "PersistentVolume default-cache"]
    assert len(memory.objects) == 3
    volume.absent(False)
    assert list(memory.objects) == [CORE]
    policy = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
    assert memory.merged == [("/api/v1/persistentvolumes/default-cache", policy)]
    assert volume.absent(False) == []


def test_a_claim_in_use_is_kept() -> None:
    memory = Memory()
    volume = NfsVolume(cast(Api, memory), WANTED)
    volume.present(False)
    spec = {"volumes": [{"persistentVolumeClaim": {"claimName": "cache"}}]}
    memory.objects[f"{CORE}/pods/train-0"] = {"metadata": {"name": "train-0"}, "spec": spec}
    with pytest.raises(DomainError, match=r"default/cache: pods use it: train-0. Delete them or wait"):
        volume.absent(False)
    assert f"{CORE}/persistentvolumeclaims/cache" in memory.objects


def test_the_volume_of_another_claim_is_not_changed() -> None:
    memory = Memory()
    for namespace in ("team", "team-a"):
        memory.objects[f"/api/v1/namespaces/{namespace}"] = {"metadata": {"name": namespace}}
    NfsVolume(cast(Api, memory), Wanted("team", "a-cache", "192.0.2.10", "/srv", "1Gi")).present(False)
    other = NfsVolume(cast(Api, memory), Wanted("team-a", "cache", "192.0.2.10", "/srv", "1Gi"))
    with pytest.raises(DomainError, match=r"belongs to the claim team/a-cache. Choose another nfs_cache_claim. Noth"):
        other.present(False)
    assert other.absent(False) == []
    assert "/api/v1/persistentvolumes/team-a-cache" in memory.objects


def test_a_volume_that_cannot_be_changed_as_declared_is_an_error() -> None:
    memory = Memory()
    NfsVolume(cast(Api, memory), WANTED).present(False)
    other = NfsVolume(cast(Api, memory), Wanted("default", "cache", "192.0.2.11", "/srv", "1Gi"))
    for dry in (True, False):
        with pytest.raises(DomainError, match=r"nfs_cache_state=absent, which keeps the data.*Nothing was changed"):
            other.present(dry)
    memory.objects["/api/v1/persistentvolumes/default-cache"]["metadata"]["labels"] = {}
    with pytest.raises(
        DomainError, match=r"PersistentVolume default-cache was not created by this collection, and stays"
    ):
        other.absent(False)
    with pytest.raises(DomainError, match=r"there is no namespace team. Create it first"):
        NfsVolume(cast(Api, memory), Wanted("team", "cache", "192.0.2.10", "/srv", "1Gi")).present(False)
