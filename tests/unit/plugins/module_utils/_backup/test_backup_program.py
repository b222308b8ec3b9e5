# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program as it runs on a host, with programs that stand in for etcd's, age and rclone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.archive import (
    Retention,
    expired,
    read_archive,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.manifest import archive_name, read_manifest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.state import (
    Settings,
    State,
    read_settings,
    read_state,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from backup_host import RECIPIENT, BackupHost

OLD = "gpulab-lab-20990101T000000Z.tar"


@pytest.fixture
def host(tmp_path: Path) -> BackupHost:
    return BackupHost(tmp_path)


def test_an_archive_has_everything_that_a_restore_needs(host: BackupHost) -> None:
    (host.root / "etc/kubernetes/enc.yaml").write_text("the key that encrypts Secrets")
    (host.root / "etc/kubernetes/manifests/kube-apiserver.yaml").write_text(
        "    - --encryption-provider-config=/etc/kubernetes/enc.yaml\n"
    )
    done = host.run()
    assert (done.returncode, done.stderr) == (0, "")
    (name,) = host.archives
    assert name in done.stdout
    members = host.members(name)
    assert list(members)[:2] == ["manifest.json", "etcd.db"]
    assert members["kubernetes/encryption-config.yaml"] == b"the key that encrypts Secrets"
    assert b"kubernetesVersion: v1.36.5" in members["kubernetes/kubeadm-config.yaml"]
    assert {"pki/ca.key", "pki/sa.key", "pki/etcd/healthcheck-client.key", "record/cluster.json"} <= set(members)
    manifest = read_manifest(members["manifest.json"].decode())
    assert (manifest.cluster, manifest.node, manifest.kubernetes, manifest.etcd) == ("lab", "cp1", "1.36.5", "3.6.6")
    # The program has written a key.
    assert (manifest.revision, manifest.keys) == (42, 3)
    assert read_archive(host.backups / name) == manifest
    assert {path.stat().st_mode & 0o777 for path in host.backups.iterdir()} == {0o600}
    assert host.backups.stat().st_mode & 0o777 == 0o700
    good = read_state(json.dumps(host.state)).good
    assert good is not None and (good.taken, good.revision, good.keys) == (manifest.taken, 42, 3)
    assert good.archive == str(host.backups / name) and good.size == (host.backups / name).stat().st_size


@pytest.mark.parametrize(
    ("behavior", "step", "why"),
    [
        # Of the file.
        ({"truncated": True}, "snapshot", "Error while checking the snapshot"),
        # Of its contents.
        ({"lost": True}, "drill", "instead of"),
        ({"behind": 1}, "drill", "revision 42 instead of 43"),
        # An old snapshot instead of the new one.
        ({"stale": True}, "drill", "Error while comparing the restored snapshot with etcd"),
        ({"forgets": True}, "drill", "time of the backup 2020-01-01T00:00:00Z instead of"),
        ({"dies": True}, "drill", "it ended. etcdserver: the database is damaged"),
        ({"fail": "etcdutl snapshot restore"}, "drill", "restoring the snapshot in the drill"),
    ],
    ids=["truncated", "lost", "behind", "stale", "forgets", "dies", "restore"],
)
def test_a_damaged_snapshot_does_not_become_an_archive(
    host: BackupHost, behavior: dict[str, Any], step: str, why: str
) -> None:
    assert host.run().returncode == 0
    before, good = host.archives, host.state["good"]
    host.store({"revision": 41, "keys": {"/registry/pods/a": "1"}}, "earlier")
    host.behave(**behavior)
    done = host.run()
    assert done.returncode == 1
    assert why in done.stderr
    assert host.archives == before
    assert host.state["good"] == good
    assert host.state["attempt"]["step"] == step
    assert host.state["attempt"]["error"] == done.stderr.strip()


def test_a_server_that_does_not_answer_is_killed_after_its_limit_and_started_again(host: BackupHost) -> None:
    drill = host.place / "program/gpulab_backup/plugin_utils/_backup/drill.py"
    drill.write_text(drill.read_text().replace("LIMIT = 10.0", "LIMIT = 2.0"))
    host.behave(silent=True)
    done = host.run()
    assert "no answer within 2 s" in done.stderr
    assert host.calls.count("etcd") == 2, "one hiccup is not a verdict"
    assert host.archives == []
    assert host.state["attempt"]["step"] == "drill"


def test_too_little_space_is_refused_before_anything_is_written(host: BackupHost) -> None:
    host.behave(size=2**50)
    done = host.run()
    assert "of which 3 copies are needed" in done.stderr
    assert host.state["attempt"]["step"] == "space"
    assert host.calls == ["etcdctl endpoint"]
    assert host.archives == []


CALLS = [
    *("etcdctl endpoint", "etcdctl put", "etcdctl snapshot", "etcdutl snapshot status", "etcdctl get", "kubectl get"),
    *("etcdutl snapshot restore", "etcd", "age", "rclone copyto", "rclone cat", "rclone moveto", "rclone lsf"),
]


def test_an_interruption_at_any_program_leaves_no_half_archive(tmp_path: Path) -> None:
    host = BackupHost(tmp_path, recipients=[RECIPIENT], places=["nas:gpulab"])
    assert host.run().returncode == 0
    assert set(host.calls) == {*CALLS}
    whole = {(host.backups / name).stat().st_size for name in host.archives}
    for call in CALLS:
        host.behave(kill=call)
        assert host.run().returncode == -9, call
        left = [name for name in host.archives if name != ".work"]
        assert {(host.backups / name).stat().st_size for name in left} == whole, call
        host.behave()
        assert host.run().returncode == 0, call
        assert all(name.endswith(".tar.age") for name in host.archives), call
        remote = [path.name for path in (tmp_path / "remote/gpulab/cp1").iterdir()]
        assert all(name.endswith(".tar.age") for name in remote), call


@pytest.mark.parametrize(
    ("behavior", "place", "why"),
    [
        ({}, "gone:gpulab", "connection refused"),
        ({"lies": True}, "nas:gpulab", "it returned 1000 bytes instead of"),
        ({"fail": "rclone moveto"}, "nas:gpulab", "Error while renaming"),
    ],
    ids=["unreachable", "truncates", "rename"],
)
def test_a_copy_that_failed_is_reported_and_the_archive_stays(
    tmp_path: Path, behavior: dict[str, Any], place: str, why: str
) -> None:
    host = BackupHost(tmp_path, recipients=[RECIPIENT], places=[place])
    host.behave(**behavior)
    done = host.run()
    assert done.returncode == 1 and why in done.stderr
    (name,) = host.archives
    assert host.state["good"]["archive"].endswith(name)
    assert why in host.state["good"]["places"][place]
    assert host.state["attempt"]["step"] == "copy"
    assert not list((tmp_path / "remote").rglob("*.age")), "no half copy has the final name"


def test_one_unreachable_place_does_not_keep_others_from_their_copy(tmp_path: Path) -> None:
    host = BackupHost(tmp_path, recipients=[RECIPIENT], places=["gone:gpulab", "nas:gpulab"])
    assert host.run().returncode == 1
    assert host.state["good"]["places"]["nas:gpulab"] == ""
    assert [path.name for path in (tmp_path / "remote/gpulab/cp1").iterdir()] == host.archives


def test_old_copies_and_half_ones_are_deleted(tmp_path: Path) -> None:
    host = BackupHost(tmp_path, recipients=[RECIPIENT], places=["nas:gpulab"], keep_count=1)
    place = tmp_path / "remote/gpulab/cp1"
    place.mkdir(parents=True)
    # The cluster was created in 2026.
    stays = {"notes.txt", "gpulab-other-20260201T000000Z.tar.age", "gpulab-lab-20200101T000000Z.tar.age"}
    for name in {"gpulab-lab-20260201T000000Z.tar.age", "gpulab-lab-20260202T000000Z.tar.age.part", *stays}:
        (place / name).touch()
    assert host.run().returncode == 0
    assert {path.name for path in place.iterdir()} == {*host.archives, *stays}


@pytest.mark.parametrize(
    ("place", "directory"),
    [("nas:gpulab", "nas:gpulab/cp1"), ("nas:", "nas:cp1"), ("/mnt/x", "/mnt/x/cp1"), ("/mnt/x/", "/mnt/x/cp1")],
)
def test_place_of_copies(tmp_path: Path, place: str, directory: str) -> None:
    host = BackupHost(tmp_path, recipients=[RECIPIENT], places=[place.replace("/mnt", str(tmp_path))])
    assert host.run().returncode == 0
    calls = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    (target,) = [args[-1] for called, args in calls if called == "rclone copyto"]
    assert target.replace(str(tmp_path), "/mnt").rpartition("/")[0] == directory


def test_clear_text_is_nowhere_if_there_are_recipients(tmp_path: Path) -> None:
    host = BackupHost(tmp_path, recipients=[RECIPIENT])
    assert host.run().returncode == 0
    (name,) = host.archives
    assert name.endswith(".tar.age")
    assert (host.backups / name).read_bytes().startswith(b"age-encryption.org/v1")
    host.behave(**{"short age": True})
    done = host.run()
    assert "age has written only 100 bytes" in done.stderr
    assert host.archives == [name]


def test_copies_in_clear_are_refused(host: BackupHost) -> None:
    host.settings["places"] = ["nas:gpulab"]
    assert "copies are never made in clear" in host.run().stderr
    assert host.calls == [] and host.state["attempt"]["step"] == "settings"


def test_api_server_that_starts_has_time_to_answer(host: BackupHost) -> None:
    host.behave(refusals=2)
    assert host.run().returncode == 0
    assert host.calls.count("kubectl get") == 3


def test_without_the_api_the_last_known_configuration_is_used(host: BackupHost) -> None:
    host.behave(**{"no api": True})
    assert "Error while reading kubeadm's configuration from the API" in host.run(patient=False).stderr
    host.behave()
    assert host.run().returncode == 0
    host.behave(**{"no api": True})
    assert host.run().returncode == 0
    assert b"v1.36.5" in host.members(host.archives[-1])["kubernetes/kubeadm-config.yaml"]


@pytest.mark.parametrize("name", ["etc/kubernetes/pki/sa.key", "etc/kubernetes/pki/ca.crt"])
def test_a_missing_or_empty_key_is_an_error(host: BackupHost, name: str) -> None:
    (host.root / name).write_text("")
    assert f"{name} for the backup: it is empty" in host.run().stderr
    (host.root / name).unlink()
    assert host.run().returncode == 1
    assert host.archives == []


def test_other_files_next_to_the_keys_do_not_stop_backups(host: BackupHost) -> None:
    pki = host.root / "etc/kubernetes/pki"
    for name, text in {".ca.crt.x7k2p": "", "sa.key (old)": "x", "index.txt": "", "oidc.crt": "x"}.items():
        (pki / name).write_text(text)
    done = host.run()
    assert done.returncode == 0, done.stderr
    members = host.members(host.archives[0])
    assert members["pki/index.txt"] == b"" and members["pki/oidc.crt"] == b"x"
    assert not {"pki/.ca.crt.x7k2p", "pki/sa.key (old)"} & members.keys()


@pytest.mark.parametrize("record", ["", '{"name": "la', '{"name": "Lab!"}', "[]"])
def test_a_damaged_record_does_not_stop_backups(host: BackupHost, record: str) -> None:
    (host.root / "var/lib/gpulab/cluster.json").write_text(record)
    done = host.run()
    assert done.returncode == 0, done.stderr
    members = host.members(host.archives[0])
    assert "record/cluster.json" not in members
    assert read_manifest(members["manifest.json"].decode()).cluster == "kubernetes"


def test_no_backup_is_taken_and_none_is_deleted_while_a_restore_is_interrupted(host: BackupHost) -> None:
    """The timer of a host that is restored from one of its own archives."""
    assert host.run().returncode == 0
    (host.backups / "gpulab-lab-20260201T000000Z.tar").touch()
    before = host.archives
    record = {"schema": 1, "archive": "a" * 64, "cluster": "lab", "aside": [], "kubelet": True, "step": "start"}
    (host.root / "var/lib/gpulab/restore.json").write_text(json.dumps(record))
    done = host.run()
    assert done.returncode == 1 and "A restore was interrupted on this host" in host.state["attempt"]["error"]
    assert host.archives == before and host.calls == []
    host.settings["keep_count"] = 1
    (host.root / "var/lib/gpulab/restore.json").write_text(json.dumps({**record, "step": "done"}))
    assert host.run().returncode == 0
    assert len(host.archives) == 1


def test_a_damaged_state_does_not_stop_backups(host: BackupHost) -> None:
    (host.root / "var/lib/gpulab/backup.json").write_text("half")
    assert host.run().returncode == 0
    assert host.state["attempt"]["error"] == ""


NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
BEGINNING = NOW - 14 * 86400
NEWEST = archive_name("lab", "2027-01-15T08:00:00Z")
DAYS = [archive_name("lab", f"2027-01-{day}T{hour}:30:00Z") for day in (14, 13, 12) for hour in (23, 11)]
HOURS = [archive_name("lab", f"2027-01-15T0{hour}:00:00Z", hour % 2 == 0) for hour in range(7, 2, -1)]


@pytest.mark.parametrize(
    ("names", "count", "days", "gone"),
    [
        ([], 1, 1, []),
        (HOURS, 6, 1, []),
        (HOURS, 3, 1, HOURS[2:]),
        (HOURS, 1, 1, HOURS),
        # The last one of each day, of which today is one.
        (DAYS, 1, 1, DAYS),
        (DAYS, 1, 3, [DAYS[1], *DAYS[3:]]),
        ([*DAYS, *HOURS], 7, 4, DAYS[1::2]),
        ([*DAYS, *HOURS], 20, 1, []),
        (["notes", "gpulab-other-20200101T000000Z.tar", ".work"], 1, 1, []),
        # The clock was wrong, or is.
        ([OLD], 2, 1, []),
        ([OLD, *HOURS], 3, 1, HOURS[2:]),
        # Of a former cluster with the same name.
        (["gpulab-lab-20260101T000000Z.tar", "gpulab-lab-20261231T235959Z.tar.age"], 1, 1, []),
    ],
)
def test_the_newest_archives_and_the_last_one_of_each_day_are_kept(
    names: list[str], count: int, days: int, gone: list[str]
) -> None:
    found = expired([*names, NEWEST], NEWEST, NOW, Retention(count, days, BEGINNING))
    assert sorted(found) == sorted(gone)


def test_the_last_archive_is_never_deleted_however_old() -> None:
    assert expired([NEWEST], NEWEST, NOW + 1e9, Retention(1, 1)) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"keep_days": 0}, "keep_days is missing or not a valid number"),
        ({"keep_count": True}, "keep_count is missing or not a valid number"),
        ({"etcd": "etcd"}, "etcd is not an absolute path"),
        ({"recipients": "age1x"}, "recipients is not a list of texts"),
        ({"node": None}, "node is missing or not a text"),
    ],
)
def test_settings_that_are_not_valid_are_refused(host: BackupHost, change: dict[str, Any], why: str) -> None:
    assert isinstance(read_settings(json.dumps(host.settings)), Settings)
    with pytest.raises(DomainError, match=why):
        read_settings(json.dumps({**host.settings, **change}))


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state["good"].update(taken="now"),
        lambda state: state["good"].update(revision="1"),
        lambda state: state["good"].pop("archive"),
        lambda state: state["attempt"].pop("time"),
        lambda state: state.update(good=[]),
    ],
)
def test_a_state_that_is_not_valid_is_refused(damage: Callable[[Any], Any]) -> None:
    good = {"taken": "2026-11-28T12:00:00Z", "archive": "/x", "revision": 1, "keys": 1, "size": 1}
    state: dict[str, Any] = {"attempt": {"time": "2026-11-28T12:00:00Z"}, "good": good}
    assert read_state(json.dumps(state)).good
    assert read_state("{}") == State()
    damage(state)
    with pytest.raises(DomainError):
        read_state(json.dumps(state))
