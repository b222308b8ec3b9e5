"""The power cut of a disk, with a real file system."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.nodes import disk
from lab.nodes.errors import LabError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")


@pytest.fixture
def place(lab_cache: Path) -> Iterator[Path]:
    """Return the directory of the disk of cp1."""
    free = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False)
    if free.returncode != 0:
        pytest.skip(f"no loop devices here: {free.stderr}")
    try:
        disk.make("t", "cp1")
        yield disk.mount_point("t", "cp1")
    finally:
        disk.remove_all("t")


def write(path: Path, text: str) -> None:
    """Write a file as careful programs do."""
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def test_a_power_cut_takes_what_was_not_synced_and_leaves_new_files_empty(place: Path) -> None:
    (place / "etc" / "new").write_text("not synced")
    write(place / "etcd" / "synced", "synced")
    (place / "kubelet" / "late").write_text("not even in the log")
    disk.cut("t", "cp1")
    # As `lab power-cut` does after a test.
    disk.cut("t", "cp1")
    assert disk.was_cut("t", "cp1")
    with pytest.raises(OSError, match="Input/output error"):
        (place / "etc" / "more").write_text("the power is off")
    disk.mount("t", "cp1")
    assert {path.name: path.read_text() for path in place.rglob("*") if path.is_file()} == {
        "new": "",
        "synced": "synced",
    }
    assert set(disk.PLACES) <= {path.name for path in place.iterdir()}


def test_a_node_that_starts_has_everything_on_its_disk(place: Path) -> None:
    (place / "etc" / "new").write_text("not synced")
    disk.mount("t", "cp1")
    disk.cut("t", "cp1")
    disk.mount("t", "cp1")
    assert (place / "etc" / "new").read_text() == "not synced"


def test_a_deleted_file_takes_no_space_of_this_machine(place: Path) -> None:
    file = place.parent / "cp1.ext4"
    write(place / "containerd" / "layer", "x" * (32 << 20))
    full = file.stat().st_blocks
    (place / "containerd" / "layer").unlink()
    disk.mount("t", "cp1")
    disk.unmount("t", "cp1")
    assert file.stat().st_blocks < full - (30 << 20) // 512


def test_a_disk_that_is_let_go_of_soon_is_mounted(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(["mount", "--bind", place, other], check=True)
    ending = threading.Timer(0.5, lambda: subprocess.run(["umount", other], check=True))
    ending.start()
    try:
        disk.mount("t", "cp1")
    finally:
        ending.join()
    assert place.is_mount()


def test_a_disk_that_something_keeps_mounted_is_not_mounted_twice(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_FREE_SECONDS", 0.0)
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(["mount", "--bind", place, other], check=True)
    try:
        with pytest.raises(LabError, match=r"/dev/loop\d+ still uses .*cp1\.ext4"):
            disk.mount("t", "cp1")
        with pytest.raises(LabError, match=r"removing the disk of cp1: /dev/loop\d+ still uses"):
            disk.remove("t", "cp1")
        with pytest.raises(LabError, match="its disk is not mounted"):
            disk.cut("t", "cp1")
    finally:
        subprocess.run(["umount", other], check=True)


def test_a_file_system_that_is_not_the_disk_is_never_shut_down(place: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "other", place], check=True)
    try:
        with pytest.raises(LabError, match="its disk is not mounted"):
            disk.cut("t", "cp1")
    finally:
        subprocess.run(["umount", place], check=True)
    disk.cut("t", "cp1")
