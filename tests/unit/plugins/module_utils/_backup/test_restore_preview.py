# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.database import Database, read_database
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.manifest import Manifest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.objects import (
    VALUES,
    Place,
    by_kind,
    have_same_past,
    losses,
    place,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.pods import (
    RunningPod,
    StoredPod,
    ending_pods,
    owner_of,
    read_pod,
    stored_pods,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.preview import (
    FILES,
    UNKNOWN,
    lines,
    preview,
    read_running,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from etcd_databases import database
from hypothesis import given
from hypothesis import strategies as st

MANIFEST = Manifest(*("lab", "sha256:" + "0" * 64, "cp1", "1.36.4", "3.6.8", "0.3.0"), 310, 306, "2026-11-28T14:00:03Z")


def read(name: str, tmp_path: Path) -> Database:
    path = tmp_path / name
    path.write_bytes(database(name))
    found: Database = read_database(path, VALUES)
    return found


def test_deleted_keys_and_older_revisions_do_not_count(tmp_path: Path) -> None:
    found = read("snapshot", tmp_path)
    assert (found.revision, len(found.keys)) == (310, 306)
    assert "/registry/configmaps/default/settings-007" not in found.keys
    changed = found.keys["/registry/configmaps/default/settings-008"]
    assert (changed.changed, changed.value) == (310, b"")


def test_restored_snapshot_has_the_same_keys(tmp_path: Path) -> None:
    snapshot, restored = read("snapshot", tmp_path), read("restored", tmp_path)
    assert restored.keys == snapshot.keys
    assert restored.revision > snapshot.revision + 10**9 - 1000


@pytest.mark.parametrize("size", [0, 100, 5000, 30000])
def test_cut_off_database_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "db").write_bytes(database("snapshot")[:size])
    with pytest.raises(DomainError, match="not a database of etcd, or it is damaged"):
        read_database(tmp_path / "db")


@pytest.mark.parametrize("child", [None, 0, 2**63, 2**64 - 1])
def test_page_that_leads_nowhere_or_to_itself_is_damage(tmp_path: Path, child: int | None) -> None:
    data = bytearray(database("snapshot"))
    branches = [page for page in range(len(data) // 4096) if struct.unpack_from("<QH", data, page * 4096) == (page, 1)]
    assert branches
    for page in branches:
        for element in range(struct.unpack_from("<H", data, page * 4096 + 10)[0]):
            struct.pack_into("<Q", data, page * 4096 + 16 + element * 16 + 8, page if child is None else child)
    (tmp_path / "db").write_bytes(data)
    with pytest.raises(DomainError, match="not a database of etcd, or it is damaged"):
        read_database(tmp_path / "db")


@given(st.integers(0, 100_000), st.binary(min_size=1, max_size=64))
def test_damage_is_an_error_or_unnoticed_but_never_a_crash(place_of_damage: int, damage: bytes) -> None:
    data = database("snapshot")
    start = place_of_damage % len(data)
    path = Path(tempfile.gettempdir()) / f"gpulab-damaged-{os.getpid()}"
    path.write_bytes(data[:start] + damage + data[start + len(damage) :])
    try:
        read_database(path, VALUES)
    except DomainError:
        pass
    finally:
        path.unlink()


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("/registry/pods/research/train", Place("pods", "research", "train")),
        ("/registry/minions/gpu1", Place("nodes", "", "gpu1")),
        ("/registry/services/specs/default/kubernetes", Place("services", "default", "kubernetes")),
        ("/registry/services/endpoints/default/kubernetes", Place("endpoints", "default", "kubernetes")),
        ("/registry/clusterroles/system:node", Place("clusterroles", "", "system:node")),
        ("/registry/example.org/widgets/research/one", Place("widgets.example.org", "research", "one")),
        ("/registry/nvidia.com/clusterpolicies/policy", Place("clusterpolicies.nvidia.com", "", "policy")),
        ("/registry/pods", None),
        ("/registry/pods/a/b/c", None),
        ("/registry/services/others/a/b", None),
        ("/other/pods/a/b", None),
        ("compact_rev_key", None),
    ],
)
def test_object_of_a_key(key: str, expected: Place | None) -> None:
    assert place(key) == expected


def test_losses_by_kind_and_namespace(tmp_path: Path) -> None:
    later, snapshot = read("later", tmp_path), read("snapshot", tmp_path)
    found = losses(later.keys, snapshot.keys)
    # Neither the event nor the lease, which Kubernetes writes again.
    assert by_kind(found.lost) == [
        "1 clusterroles: team",
        "1 configmaps in research: new",
        "1 pods in research: train-x7k2p",
        "1 services in research: web",
        "1 widgets.example.org in research: two",
    ]
    assert by_kind(found.changed) == ["1 configmaps in default: settings-010", "1 pods in research: moved-0"]
    assert by_kind(found.returning) == ["1 configmaps in default: settings-009"]


def test_many_names_are_counted() -> None:
    assert by_kind(Place("pods", "a", f"p{number}") for number in range(7)) == [
        "7 pods in a: p0, p1, p2, p3, p4, and 2 more"
    ]


def test_data_of_another_cluster_or_older_data_are_not_compared(tmp_path: Path) -> None:
    later, snapshot = read("later", tmp_path), read("snapshot", tmp_path)
    assert have_same_past(later, snapshot)
    assert not have_same_past(snapshot, later)
    assert not have_same_past(Database(400, {}), snapshot)
    assert preview(MANIFEST, snapshot, Database(400, {}), FILES, {}).source == UNKNOWN


def test_pods_are_read_in_both_forms_of_the_api_server(tmp_path: Path) -> None:
    found = stored_pods(read("snapshot", tmp_path).keys)
    # The controller's reference counts, not the first one. An encrypted pod has no texts.
    assert found["research/old-abcde"] == StoredPod("uid-old", "gpu1", "Job/old")
    assert found["research/waits-abcde"] == StoredPod("uid-waits")
    assert found["research/secret"] == StoredPod()
    text = b'{"metadata": {"uid": "u", "deletionTimestamp": "x"}, "spec": {"nodeName": "gpu1"}}'
    assert read_pod(text) == StoredPod("u", "gpu1", "", True)


@given(st.binary(max_size=200))
def test_any_value_is_read(value: bytes) -> None:
    for head in (b"", b"k8s\0", b"{"):
        assert isinstance(read_pod(head + value), StoredPod)


@pytest.mark.parametrize(
    ("labels", "name", "owner"),
    [
        ({"batch.kubernetes.io/job-name": "train", "job-name": "train"}, "train-x7k2p", "Job/train"),
        ({"statefulset.kubernetes.io/pod-name": "db-0"}, "db-0", "StatefulSet/db"),
        ({"pod-template-hash": "5d"}, "web-5d-abcde", "ReplicaSet/web-5d"),
        ({"pod-template-generation": "1"}, "agent-abcde", "DaemonSet/agent"),
        ({}, "alone", ""),
    ],
)
def test_owner_shown_by_labels(labels: dict[str, str], name: str, owner: str) -> None:
    assert owner_of(labels, name) == owner


STORED = {
    "a/same": StoredPod("1", "gpu1"),
    "a/other-node": StoredPod("2", "gpu2"),
    "a/waiting": StoredPod("3", ""),
    "a/again": StoredPod("4", "gpu1"),
    "a/leaving": StoredPod("5", "gpu1", "", True),
    "a/encrypted": StoredPod(),
}


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (RunningPod("1", "a", "same"), ""),
        (RunningPod("2", "a", "other-node"), "in the snapshot, it is on gpu2"),
        (RunningPod("3", "a", "waiting"), "in the snapshot, it is not on a node yet"),
        (RunningPod("9", "a", "again"), "it was created again after the snapshot"),
        (RunningPod("5", "a", "leaving"), "in the snapshot, it is being deleted"),
        (RunningPod("9", "a", "new"), "it was created after the snapshot"),
        # Nothing shows that it ends.
        (RunningPod("9", "a", "encrypted"), ""),
        (RunningPod("9", "kube-system", "etcd-cp1", static=True), ""),
    ],
)
def test_which_pods_end(pod: RunningPod, why: str) -> None:
    assert [each.why for each in ending_pods({"gpu1": [pod]}, STORED, {})] == [why] * bool(why)


def test_pods_with_most_gpus_come_first_and_have_the_owner_that_the_cluster_knew() -> None:
    running = {
        "gpu2": [RunningPod("1", "a", "small", 1, "ReplicaSet/x")],
        "gpu1": [RunningPod("2", "a", "none"), RunningPod("3", "a", "large", 8, "ReplicaSet/y")],
    }
    old = {"a/large": StoredPod("3", "gpu1", "PyTorchJob/large"), "a/small": StoredPod("other", "", "Job/wrong")}
    assert [str(each) for each in ending_pods(running, {}, old)] == [
        "a/large of PyTorchJob/large with 8 GPUs on gpu1: it was created after the snapshot",
        "a/small of ReplicaSet/x with 1 GPU on gpu2: it was created after the snapshot",
        "a/none on gpu1: it was created after the snapshot",
    ]


RUNNING = {
    "gpu1": [
        {"uid": "uid-old", "namespace": "research", "name": "old-abcde", "gpus": 1, "labels": {}, "static": False},
        {"uid": "uid-train", "namespace": "research", "name": "train-x7k2p", "gpus": 2, "labels": {}, "static": False},
    ],
    "gpu2": None,
}


def test_lines_of_a_preview_with_the_data_of_before(tmp_path: Path) -> None:
    old, snapshot = read("later", tmp_path), read("snapshot", tmp_path)
    found = lines(preview(MANIFEST, snapshot, old, FILES, read_running(RUNNING)))
    assert found == [
        "This backup of the cluster lab was taken at 2026-11-28 14:00:03 UTC on cp1, with Kubernetes 1.36.4.",
        "5 objects will be lost:",
        "  1 clusterroles: team",
        "  1 configmaps in research: new",
        "  1 pods in research: train-x7k2p",
        "  1 services in research: web",
        "  1 widgets.example.org in research: two",
        "2 objects will have the state of 2026-11-28 14:00:03 UTC:",
        "  1 configmaps in default: settings-010",
        "  1 pods in research: moved-0",
        "1 object deleted since will exist again:",
        "  1 configmaps in default: settings-009",
        "1 running pod will end (2 GPUs):",
        "  research/train-x7k2p of Job/train with 2 GPUs on gpu1: it was created after the snapshot",
        "The pods of gpu2 are unknown: they could not be read.",
        "Data in volumes are not in a backup, and a restore does not change them.",
    ]


def test_lines_of_a_preview_without_the_data_of_before(tmp_path: Path) -> None:
    found = lines(preview(MANIFEST, read("snapshot", tmp_path), None, UNKNOWN, {}))
    assert found[1:3] == [
        "Everything written after 2026-11-28 14:00:03 UTC will be lost. What that is can't be read any more.",
        "No running pod will end.",
    ]


def test_lines_of_a_preview_of_an_unchanged_cluster(tmp_path: Path) -> None:
    snapshot = read("snapshot", tmp_path)
    assert "No object has changed since 2026-11-28 14:00:03 UTC." in lines(
        preview(MANIFEST, snapshot, snapshot, FILES, {})
    )
