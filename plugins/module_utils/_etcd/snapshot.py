# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Save a snapshot of etcd to a file that is complete, checked, and survives a power cut, or not there at all."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

from .._errors import DomainError
from .._files import locked, make_directory, sync_path
from .client import Etcd
from .members import Snapshot, read_snapshot

# Bytes that must stay free, because a full disk stops etcd and the kubelet.
RESERVE = 256 * 2**20


def check_space(path: Path, db_size: int, copies: int = 1) -> None:
    """Raise DomainError if ``path`` can't be a file, or has no space for copies of a database of this size."""
    if not path.is_absolute() or path.is_dir():
        raise DomainError(f"Error while saving {path}: it must be the absolute path of a file.")
    disk = os.statvfs(next(each for each in path.parents if each.exists()))
    free, needed = disk.f_bavail * disk.f_frsize, copies * db_size + RESERVE
    if free < needed:
        raise DomainError(
            f"Error while saving {path}: the database has {_mib(db_size)} MiB{_times(copies)}, and {_mib(RESERVE)} MiB "
            f"must stay free, but only {_mib(free)} MiB are free. Free {_mib(needed - free)} MiB, or save it elsewhere."
        )


def save(etcd: Etcd, etcdutl: str, path: Path, timeout: float) -> Snapshot:
    """Replace ``path`` (mode 0600) with a new snapshot; ``timeout`` limits each program in seconds.

    A missing directory is created with mode 0700.
    """
    make_directory(path.parent, 0o700)
    with locked(path.parent):
        return _save(etcd, etcdutl, path, timeout)


def remove_rests(path: Path) -> None:
    """Remove what a killed ``save`` has left, after a running one has ended."""
    if not path.parent.is_dir():
        return
    # The names are those of tempfile. etcdctl writes to NAME.part first.
    rest = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}(?:\.part)?")
    with locked(path.parent):
        for left in path.parent.iterdir():
            if rest.fullmatch(left.name) and left.is_file():
                left.unlink()


def _save(etcd: Etcd, etcdutl: str, path: Path, timeout: float) -> Snapshot:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    work = Path(name)
    try:
        etcd.check(["snapshot", "save", name], f"saving a snapshot of etcd to {path}", timeout=timeout)
        argv = [etcdutl, "snapshot", "status", name, "--write-out=json"]
        found = read_snapshot(etcd.runner.check(argv, f"checking the snapshot {path}", timeout=timeout).stdout)
        with work.open("rb") as file:
            os.fchmod(file.fileno(), 0o600)
            os.fsync(file.fileno())
        work.replace(path)
        sync_path(path.parent)
    finally:
        for left in (work, Path(f"{name}.part")):
            with contextlib.suppress(FileNotFoundError):
                left.unlink()
    return found


def _times(copies: int) -> str:
    return "" if copies == 1 else f", of which {copies} copies are needed"


def _mib(size: int) -> int:
    return -(-size // 2**20)
