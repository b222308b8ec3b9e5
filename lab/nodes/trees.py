"""Make one directory tree an exact copy of another, quickly if they are almost the same."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

from lab.depot import cache

_BLOCK = 1 << 20


def copy(source: Path, target: Path, reread: Callable[[str], bool] = lambda _path: False) -> int:
    """Make `target` a copy of `source`, including owners, devices, hard links and attributes; return what was replaced.

    A file with the same size and time is kept, unless `reread` returns True for its path below `source` and its content
    differs: after a power cut, the disk can have the new content of a file with its former time.
    """
    target.mkdir(parents=True, exist_ok=True)
    work = _Copy(reread)
    work.directory(source, target, "")
    return work.replaced


def size(tree: Path) -> int:
    """Return how many bytes of a disk a tree takes; files that end meanwhile don't count."""
    blocks = {}
    for directory, _names, files in os.walk(tree):
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                state = Path(directory, file).lstat()
                blocks[state.st_ino] = state.st_blocks
    return sum(blocks.values()) * 512


class _Copy:
    def __init__(self, reread: Callable[[str], bool]) -> None:
        self.reread = reread
        # Device and inode of a file with several names -> its first name in the copy.
        self.links: dict[tuple[int, int], Path] = {}
        self.replaced = 0

    def directory(self, source: Path, target: Path, below: str) -> None:
        wanted = {entry.name: entry.stat(follow_symlinks=False) for entry in os.scandir(source)}
        for entry in list(os.scandir(target)):
            if entry.name not in wanted:
                _remove(target / entry.name)
                self.replaced += 1
        for name, state in sorted(wanted.items()):
            path = f"{below}/{name}"
            self._entry(source / name, target / name, path, state)
            if stat.S_ISDIR(state.st_mode):
                self.directory(source / name, target / name, path)
        _attributes(source, target)

    def _entry(self, source: Path, target: Path, path: str, state: os.stat_result) -> None:
        """Make one entry; a directory gets its content and attributes afterwards."""
        inode = (state.st_dev, state.st_ino)
        first = self.links.get(inode)
        if not self._kept(source, target, path, state, first):
            _remove(target)
            _make(source, target, state, first)
            self.replaced += 1
        if first or stat.S_ISDIR(state.st_mode):
            return
        if state.st_nlink > 1:
            self.links[inode] = target
        _attributes(source, target)

    def _kept(self, source: Path, target: Path, path: str, state: os.stat_result, first: Path | None) -> bool:
        try:
            there = target.lstat()
        except FileNotFoundError:
            return False
        if stat.S_IFMT(there.st_mode) != stat.S_IFMT(state.st_mode):
            return False
        if first:
            return there.st_ino == first.lstat().st_ino
        if stat.S_ISREG(state.st_mode):
            pairs = [(each.st_size, each.st_mtime_ns, each.st_nlink) for each in (there, state)]
            return pairs[0] == pairs[1] and (not self.reread(path) or _same_content(source, target))
        if stat.S_ISLNK(state.st_mode):
            return target.readlink() == source.readlink()
        return there.st_rdev == state.st_rdev


def _same_content(one: Path, other: Path) -> bool:
    """Compare two files; filecmp would believe an earlier answer about files with these times."""
    with one.open("rb") as left, other.open("rb") as right:
        blocks = zip_longest(iter(lambda: left.read(_BLOCK), b""), iter(lambda: right.read(_BLOCK), b""))
        return all(ours == theirs for ours, theirs in blocks)


def _make(source: Path, target: Path, state: os.stat_result, first: Path | None) -> None:
    if first:
        target.hardlink_to(first)
    elif stat.S_ISDIR(state.st_mode):
        target.mkdir()
    elif stat.S_ISLNK(state.st_mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISREG(state.st_mode):
        shutil.copyfile(source, target)
    else:
        # Also what hides a deleted file in a container's layer, which is a device.
        os.mknod(target, state.st_mode, state.st_rdev)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        cache.remove(path)
    else:
        path.unlink(missing_ok=True)


def _attributes(source: Path, target: Path) -> None:
    """Copy owner, mode, extended attributes and times, in the order in which one does not undo the other."""
    wanted, there = source.lstat(), target.lstat()
    if (wanted.st_uid, wanted.st_gid) != (there.st_uid, there.st_gid):
        os.lchown(target, wanted.st_uid, wanted.st_gid)
        there = target.lstat()
    if wanted.st_mode != there.st_mode and not stat.S_ISLNK(wanted.st_mode):
        target.chmod(stat.S_IMODE(wanted.st_mode))
    now, before = _extended(source), _extended(target)
    for name in before.keys() - now.keys():
        os.removexattr(target, name, follow_symlinks=False)
    for name, value in now.items():
        if before.get(name) != value:
            os.setxattr(target, name, value, follow_symlinks=False)
    if wanted.st_mtime_ns != target.lstat().st_mtime_ns:
        os.utime(target, ns=(wanted.st_atime_ns, wanted.st_mtime_ns), follow_symlinks=False)


def _extended(path: Path) -> dict[str, bytes]:
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)}
