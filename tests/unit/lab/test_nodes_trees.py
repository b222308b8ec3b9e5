"""Exact copies of directory trees."""

from __future__ import annotations

import os
import random
import stat
import subprocess
from pathlib import Path

import pytest

from lab.nodes import trees


def listing(root: Path) -> list[tuple[object, ...]]:
    """Return everything that a copy keeps, including which files are the same."""
    found: list[tuple[object, ...]] = []
    first: dict[int, Path] = {}
    for path in sorted([root, *root.rglob("*")]):
        state, name = path.lstat(), path.relative_to(root)
        content: object = (
            path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else state.st_rdev
        )
        attributes = {
            key: os.getxattr(path, key, follow_symlinks=False) for key in os.listxattr(path, follow_symlinks=False)
        }
        owner = (state.st_mode, state.st_uid, state.st_gid, state.st_mtime_ns)
        same = first.setdefault(state.st_ino, name) if stat.S_ISREG(state.st_mode) else name
        found.append((name, *owner, content, attributes, same))
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "etc" / "empty").mkdir(parents=True)
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    (root / "etc" / "same").hardlink_to(root / "etc" / "hosts")
    (root / "etc" / "shadow").write_text("secret")
    (root / "etc" / "shadow").chmod(0o4600)
    (root / "link").symlink_to("/nowhere")
    os.mkfifo(root / "fifo")
    os.setxattr(root / "etc" / "shadow", "user.kept", b"1")
    os.utime(root / "etc", ns=(1, 1_234_567_890))
    return root


def test_a_copy_has_everything_and_a_second_one_changes_nothing(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    assert trees.copy(source, target) > 0
    assert listing(target) == listing(source)
    assert trees.copy(source, target) == 0


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happened_to_the_copy_is_undone(source: Path, tmp_path: Path, seed: int) -> None:
    target, chance = tmp_path / "target", random.Random(seed)
    trees.copy(source, target)
    for _ in range(6):
        path = chance.choice(sorted(target.rglob("*")))
        action = chance.choice(["write", "remove", "mode", "move", "link", "attribute"])
        if action == "remove":
            subprocess.run(["rm", "-rf", path], check=True)
        elif action == "mode" and not path.is_symlink():
            path.chmod(0o700)
        elif action == "move":
            path.rename(target / f"moved-{chance.random()}")
        elif action == "write" and path.is_file():
            path.write_text(str(chance.random()))
        elif action == "link" and path.is_file():
            (target / f"another-{chance.random()}").hardlink_to(path)
        elif action == "attribute" and path.is_file():
            os.setxattr(path, "user.more", b"2")
    trees.copy(source, target)
    trees.copy(source, target)
    assert listing(target) == listing(source)


def test_content_that_changed_without_a_new_time_is_only_found_by_reading(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    trees.copy(source, target)
    shadow = target / "etc" / "shadow"
    before = shadow.stat()
    shadow.write_text("stolen")
    os.utime(shadow, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert trees.copy(source, target) == 0
    assert trees.copy(source, target, lambda path: path == "/etc/shadow") == 1
    assert trees.copy(source, target, lambda path: True) == 0
    assert listing(target) == listing(source)


def test_files_that_became_one_are_two_again(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).write_text("same")
        os.utime(source / name, ns=(1, 1))
    trees.copy(source, target)
    (target / "b").unlink()
    (target / "b").hardlink_to(target / "a")
    trees.copy(source, target)
    assert listing(target) == listing(source)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has devices and attributes of overlays")
def test_what_hides_deleted_files_in_a_layer_is_kept(tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    (layer / "opaque").mkdir(parents=True)
    os.mknod(layer / "deleted", stat.S_IFCHR)
    os.setxattr(layer / "opaque", "trusted.overlay.opaque", b"y")
    trees.copy(layer, tmp_path / "target")
    assert listing(tmp_path / "target") == listing(layer)
