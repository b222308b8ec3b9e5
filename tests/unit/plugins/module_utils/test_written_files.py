# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and their names are on the disk before a function returns, so that a power failure does not undo them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._files import (
    DEFERRED,
    deferred,
    make_directory,
    move_aside,
    put_file,
    read_file,
    read_text,
    write_text,
)
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._nodes.deferral import described


class Disk:
    """Records what is synced, with the names that a directory has at that moment."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.synced: list[str] = []
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._record)

    def _record(self, handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        # Temporary names are random.
        named = path.relative_to(self.root).as_posix() if not path.name.startswith(".") else "a temporary file"
        content = sorted(each.name for each in path.iterdir()) if path.is_dir() else path.read_text()
        self.synced.append(f"{named}: {content}")
        self._fsync(handle)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


def test_a_new_file_its_name_and_its_directories_are_synced(disk: Disk) -> None:
    put_file(disk.root / "a/b/x", b"text")
    assert disk.synced == [".: ['a']", "a: ['b']", "a temporary file: text", "a/b: ['x']"]


@pytest.mark.parametrize("write", [lambda path: put_file(path, b"new"), lambda path: write_text(path, "new")])
def test_a_replaced_file_is_synced_with_its_name(disk: Disk, write: Callable[[Path], None]) -> None:
    (disk.root / "x").write_text("old")
    write(disk.root / "x")
    assert disk.synced == ["a temporary file: new", ".: ['x']"]


def test_a_removal_is_synced(disk: Disk) -> None:
    (disk.root / "x").write_text("old")
    put_file(disk.root / "x", None)
    assert disk.synced == [".: []"]
    put_file(disk.root / "x", None)
    assert disk.synced == [".: []"], "there was nothing to remove"


def test_a_move_is_synced_in_both_directories(disk: Disk) -> None:
    (disk.root / "etc").mkdir()
    (disk.root / "etc/x").write_text("text")
    move_aside([disk.root / "etc/x", disk.root / "etc/missing"], str(disk.root), disk.root / "aside")
    assert disk.synced[-2:] == ["aside/etc: ['x']", "etc: []"]
    assert (disk.root / "aside").stat().st_mode & 0o777 == 0o700


def test_a_move_to_another_file_system_syncs_the_copy_before_the_original_is_removed(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (disk.root / "etc/pki").mkdir(parents=True)
    (disk.root / "etc/pki/ca.key").write_text("key")

    def rename(*_paths: str) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "rename", rename)
    originals: list[bool] = []
    monkeypatch.setattr(
        disk, "_fsync", lambda _handle: originals.append((disk.root / "etc/pki/ca.key").exists()), raising=True
    )
    move_aside([disk.root / "etc/pki"], str(disk.root), disk.root / "aside")
    place = disk.synced.index("aside/etc/pki/ca.key: key")
    assert disk.synced[place + 1] == "aside/etc/pki: ['ca.key']"
    assert originals[: place + 2] == [True] * (place + 2)
    assert not (disk.root / "etc/pki").exists()


def test_directories_have_their_mode_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        make_directory(tmp_path / "a/b", 0o750)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o755, 0o750]


def test_a_file_system_that_cannot_sync_directories_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def refuse(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").is_dir():
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refuse)
    put_file(tmp_path / "x", b"text")
    assert (tmp_path / "x").read_text() == "text"


@pytest.mark.parametrize(("kind", "problem"), [("pipe", "not a regular file"), ("large", "too large")])
def test_what_can_not_be_read_to_its_end_is_an_error(tmp_path: Path, kind: str, problem: str) -> None:
    path = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.touch()
        os.truncate(path, 2**40)
    with pytest.raises(OSError, match=problem):
        read_file(path)
    with pytest.raises(DomainError, match=f"Error while reading {path}: it is {problem}"):
        read_text(path)


def test_a_link_to_the_null_device_is_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("/dev/null")
    assert read_text(tmp_path / "x") == ""


@pytest.mark.parametrize("damage", [b"", b"\0" * 10, b'{"driver": {"since"'])
def test_a_damaged_record_of_deferred_changes_is_not_read_as_none(tmp_path: Path, damage: bytes) -> None:
    assert described(deferred(str(tmp_path))) == []
    put_file(tmp_path / DEFERRED[1:], damage)
    assert described(deferred(str(tmp_path))) == [f"the record of its deferred changes can't be read ({DEFERRED})"]
