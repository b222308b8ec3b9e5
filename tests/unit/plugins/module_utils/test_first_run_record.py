# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils import _files, _first_run
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._files import put_file
from ansible_collections.gpulab.kubernetes.plugins.module_utils._first_run import (
    DIRECTORY,
    RECORD,
    VERSION,
    FirstRun,
    read_record,
)
from damaged import JSON, damaged_json
from hypothesis import given
from hypothesis import strategies as st

REPOSITORY = Path(__file__).resolve().parents[4]
STAMP = {"schema": 1, "when": "2026-11-27T23:00:00Z", "by": "0.2.0"}
REGULAR = {"mode": "0640", "uid": 0, "gid": 4, "sha256": "0" * 64}
FSTAB = {**STAMP, "kind": "file", "name": "/etc/fstab", "before": REGULAR}
KUBELET = {**STAMP, "kind": "package", "name": "kubelet", "before": {"version": "1.36.4-1.1", "held": True}}
UNIT = {**STAMP, "kind": "unit", "name": "docker.service", "before": {"enabled": "disabled", "active": "inactive"}}
SYSCTL = {**STAMP, "kind": "sysctl", "name": "net/ipv4/conf/eth0.1/forwarding", "before": {"value": "0"}}
VALID: list[dict[str, Any]] = [
    FSTAB,
    KUBELET,
    UNIT,
    {**FSTAB, "name": "/etc/systemd/system/dev-zram0.swap", "before": {"link": "/dev/null"}},
    {**FSTAB, "name": "/usr/local/sbin/x", "before": None},
    {**KUBELET, "name": "kubeadm", "before": None},
    SYSCTL,
]


def lines(*entries: dict[str, Any]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def test_all_valid_entries_are_read() -> None:
    record = read_record(lines(*VALID))
    assert record.damage == ()
    assert [
        {"schema": 1, "kind": e.kind, "name": e.name, "before": e.before, "when": e.when, "by": e.by}
        for e in record.entries.values()
    ] == VALID


def test_the_first_entry_of_an_object_counts() -> None:
    record = read_record(lines(FSTAB, {**FSTAB, "before": None}))
    assert record.entries["file", "/etc/fstab"].before == REGULAR and not record.damage


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "is not a JSON object"),
        ("[1]", "is not a JSON object"),
        ("\0" * 4096, "is not a JSON object"),
        ("[" * 100_000, "is not a JSON object"),
        (lines({**FSTAB, "by": "9" * 70_000}), "is not a JSON object"),
        (lines({**FSTAB, "schema": 2, "more": 1}), "has a schema that this version of the collection does not know"),
        (lines({**FSTAB, "schema": True}), "has a schema that this version of the collection does not know"),
        (lines({**FSTAB, "copy": "/etc/shadow"}), "does not have the fields of an entry"),
        (lines({**STAMP, "kind": "file"}), "does not have the fields of an entry"),
        (lines({**FSTAB, "kind": "command"}), "has an invalid kind"),
        (lines({**FSTAB, "kind": ["file"]}), "has an invalid kind"),
        (lines({**FSTAB, "when": "yesterday"}), "has an invalid when"),
        (lines({**FSTAB, "by": "0.2\n"}), "has an invalid by"),
        (lines({**FSTAB, "name": 7}), "has an invalid name"),
        (lines({**FSTAB, "name": "/etc/../root/.ssh/authorized_keys"}), "has an invalid name"),
        (lines({**FSTAB, "name": "/etc//fstab"}), "has an invalid name"),
        (lines({**FSTAB, "name": "/root/.bashrc"}), "has an invalid name"),
        (lines({**FSTAB, "name": "/etc/a\nb"}), "has an invalid name"),
        (lines({**KUBELET, "name": "-o=x"}), "has an invalid name"),
        (lines({**KUBELET, "name": "kubelet;reboot"}), "has an invalid name"),
        (lines({**UNIT, "name": "../x.service"}), "has an invalid name"),
        (lines({**FSTAB, "before": {}}), "has an invalid before"),
        (lines({**FSTAB, "before": {**REGULAR, "mode": "+s"}}), "has an invalid before"),
        (lines({**FSTAB, "before": {**REGULAR, "uid": True}}), "has an invalid before"),
        (lines({**FSTAB, "before": {**REGULAR, "content": "x"}}), "has an invalid before"),
        (lines({**FSTAB, "before": KUBELET["before"]}), "has an invalid before"),
        (lines({**KUBELET, "before": {"version": "$(reboot)", "held": True}}), "has an invalid before"),
        (lines({**UNIT, "before": {"enabled": "disabled", "active": 1}}), "has an invalid before"),
        (lines({**SYSCTL, "name": "kernel/../../../etc/passwd"}), "has an invalid name"),
        (lines({**SYSCTL, "name": "/etc/passwd"}), "has an invalid name"),
        (lines({**SYSCTL, "before": {"value": "1\n2"}}), "has an invalid before"),
    ],
)
def test_invalid_lines_are_ignored_and_reported(line: str, words: str) -> None:
    record = read_record(f"{lines(UNIT)}{line.rstrip()}\n{lines(KUBELET)}")
    assert [name for _kind, name in record.entries] == ["docker.service", "kubelet"]
    assert record.damage == (f"line 2 {words}",)


@given(st.text() | JSON.map(json.dumps) | st.one_of([damaged_json(lines(each)) for each in (FSTAB, KUBELET, SYSCTL)]))
def test_any_record_is_read_into_known_fields(text: str) -> None:
    for (kind, name), entry in read_record(text).entries.items():
        assert kind in ("file", "package", "sysctl", "unit") and (kind, name) == (entry.kind, entry.name)
        assert name.isprintable() and ".." not in name.split("/")
        assert entry.before is None or all(isinstance(value, (str, int)) for value in entry.before.values())


class Host:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.warnings: list[str] = []
        self.directory = root / DIRECTORY[1:]
        self.record = self.directory / RECORD

    def first_run(self, check: bool = False) -> FirstRun:
        return FirstRun(SimpleNamespace(check_mode=check, warn=self.warnings.append), str(self.root))

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.root / name[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def keep(self, *names: str, check: bool = False) -> set[str]:
        return self.first_run(check).keep_files({name: self.root / name[1:] for name in names})

    def before(self, name: str) -> Any:
        return read_record(self.record.read_text()).entries["file", name].before

    def copy(self, name: str) -> Path:
        return self.first_run().copy_of(name)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "root")


def test_the_first_state_of_a_file_stays(host: Host) -> None:
    path = host.write("/etc/fstab", "first", 0o640)
    os.chown(path, os.geteuid(), os.getegid())
    assert host.keep("/etc/fstab", check=True) == {"/etc/fstab"} and not host.directory.exists()
    assert host.keep("/etc/fstab") == {"/etc/fstab"}
    text = host.record.read_text()
    host.write("/etc/fstab", "second", 0o600)
    assert host.keep("/etc/fstab") == host.keep("/etc/fstab", check=True) == set()
    assert host.record.read_text() == text
    assert host.before("/etc/fstab") == {
        "mode": "0640",
        "uid": os.geteuid(),
        "gid": os.getegid(),
        "sha256": hashlib.sha256(b"first").hexdigest(),
    }
    copy = host.copy("/etc/fstab")
    assert copy == host.directory / "files/etc/fstab"
    assert (copy.read_text(), stat.S_IMODE(copy.stat().st_mode)) == ("first", 0o640)
    assert json.loads(text)["by"] == VERSION
    assert [stat.S_IMODE(path.stat().st_mode) for path in (host.directory, host.record)] == [0o700, 0o600]


def test_absent_files_and_links_are_recorded(host: Host) -> None:
    host.write("/etc/real", "x")
    (host.root / "etc/link").symlink_to("real")
    host.keep("/etc/none", "/etc/link")
    assert (host.before("/etc/none"), host.before("/etc/link")) == (None, {"link": "real"})
    assert str(host.copy("/etc/link").readlink()) == "real" and not host.copy("/etc/none").exists()


def test_a_file_that_is_changed_through_a_link_keeps_its_content(host: Host) -> None:
    host.write("/etc/real", "x")
    link = host.root / "etc/fstab"
    link.symlink_to("real")
    assert host.first_run().keep_file("/etc/fstab", link) == str(host.copy("/etc/fstab"))
    assert host.copy("/etc/fstab").read_text() == "x" and "sha256" in host.before("/etc/fstab")
    assert host.first_run().keep_file("/etc/none", host.root / "etc/none") is None


@pytest.mark.parametrize("suffix", [".before-gpulab", ".gpulab-backup"])
def test_copy_kept_by_an_earlier_version_is_the_first_state(host: Host, suffix: str) -> None:
    host.write("/etc/x", "ours")
    host.write(f"/etc/x{suffix}", "theirs", 0o600)
    host.keep("/etc/x")
    assert host.copy("/etc/x").read_text() == "theirs" and host.before("/etc/x")["mode"] == "0600"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("/etc/containerd/config.toml", "# Managed by gpulab.kubernetes\n"),
        ("/etc/a", "# Managed by Ansible (gpulab.kubernetes.kernel_settings); changes made here are overwritten.\n"),
        ("/etc/apt/keyrings/gpulab-kubernetes.asc", "key"),
    ],
)
def test_file_written_by_an_earlier_version_counts_as_absent_before(host: Host, name: str, text: str) -> None:
    host.write(name, text)
    host.keep(name)
    assert host.before(name) is None and not host.copy(name).exists()


@pytest.mark.parametrize("name", ["/tmp/gpulab-x.conf", "/root/my-admin.conf", "/var/lib/gpulab/docker.json", "etc/x"])
def test_files_that_are_not_host_configuration_are_not_recorded(host: Host, name: str) -> None:
    assert host.keep(name) == host.keep(name, check=True) == set() and not host.directory.exists()


def test_files_of_an_ordinary_user_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(check_mode=True)
    report = {"/etc/ansible/gpulab-report.json": Path("/etc/ansible/gpulab-report.json")}
    kept = []
    for user in (1000, 0):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        monkeypatch.setattr(_first_run, "read_file", lambda _path: None)
        kept.append(FirstRun(module).keep_files(report))
    assert kept == [set(), {*report}]


@pytest.mark.parametrize("torn", range(0, 400, 7))
def test_after_a_torn_write_earlier_and_later_entries_are_read(host: Host, torn: int) -> None:
    host.keep("/etc/a", "/etc/b")
    whole = host.record.read_bytes()
    host.record.write_bytes(whole[: min(torn, len(whole))])
    complete = len(read_record(host.record.read_text()).entries)
    assert complete == sum(len(line) + 1 <= torn + 1 for line in _growing(whole))
    host.keep("/etc/c")
    record = read_record(host.record.read_text())
    assert len(record.entries) == complete + 1 and ("file", "/etc/c") in record.entries
    assert bool(host.warnings) == bool(record.damage)
    assert all(str(host.record) in warning and "line" in warning for warning in host.warnings)


def _growing(text: bytes) -> list[bytes]:
    """Return the parts of the text up to each line break, without the break."""
    return [text[:place] for place, byte in enumerate(text) if byte == 0x0A]


def test_a_run_that_is_killed_before_the_entry_is_written_loses_no_first_state(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.write("/etc/x", "first")

    def killed(path: Path, *more: Any) -> None:
        if path == host.record:
            raise KeyboardInterrupt
        put_file(path, *more)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(_first_run, "put_file", killed)
        host.keep("/etc/x")
    host.write("/etc/x", "changed by hand")
    assert host.keep("/etc/x") == {"/etc/x"}
    assert host.copy("/etc/x").read_text() == "first"
    assert host.before("/etc/x")["sha256"] == hashlib.sha256(b"first").hexdigest()


def test_the_copy_survives_a_power_cut_if_its_entry_does(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.write("/etc/a/x", "first")
    done: list[str] = []

    def written(path: Path, *more: Any) -> None:
        put_file(path, *more)
        done.append(str(path.relative_to(host.directory)))

    def synced(path: Path) -> None:
        if path.is_relative_to(host.directory):
            done.append(f"sync {path.relative_to(host.directory)}")

    monkeypatch.setattr(_first_run, "put_file", written)
    for module in (_first_run, _files):
        monkeypatch.setattr(module, "sync_path", synced)
    host.keep("/etc/a/x")
    parents = ["sync .", "sync files", "sync files/etc"]
    assert done == [*parents, "sync files/etc/a", "files/etc/a/x", "sync .", RECORD]
    # Links are copied, too.
    done.clear()
    (host.root / "etc/a/link").symlink_to("x")
    host.keep("/etc/a/link")
    assert done == ["sync files/etc/a", "sync .", RECORD]


def test_without_a_record_nothing_is_changed(host: Host) -> None:
    host.write("/var/lib/gpulab", "a file where a directory should be")
    with pytest.raises(DomainError, match=r"Error while recording what this host had .*: .*\. Make .* run again\."):
        host.keep("/etc/x")


def test_runs_at_the_same_time_lose_no_entry(host: Host) -> None:
    names = [f"/etc/{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(host.keep, names))
    assert {name for _kind, name in read_record(host.record.read_text()).entries} == set(names)


def test_the_version_is_that_of_the_collection() -> None:
    assert yaml.safe_load((REPOSITORY / "galaxy.yml").read_text())["version"] == VERSION
