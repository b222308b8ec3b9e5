# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read files with all their bytes, write them atomically, and move them aside instead of deleting them.

What a function here has written, moved or removed when it returns is still so after a power failure.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from ._errors import DomainError

BACKUP = ".gpulab-backup"
# Prefix of directories for files of an earlier init or join; a time_stamp follows.
ASIDE = "/var/lib/gpulab/aside-"
_LARGEST_FILE = 256 * 1024 * 1024
# The record of deferred changes, and how much of it counts.
DEFERRED, LARGEST_DEFERRED = "/var/lib/gpulab/deferred.json", 64 * 1024


def under(root: str, path: str) -> Path:
    """Return an absolute path relative to ``root`` as the root directory."""
    return Path(root) / path.lstrip("/")


def read_file(path: Path) -> bytes | None:
    """Return the content, None if the file does not exist. Raise OSError, also if reading would not end."""
    try:
        found = path.stat()
        if stat.S_ISCHR(found.st_mode):
            # A link to /dev/null.
            return b""
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if found.st_size > _LARGEST_FILE:
            raise OSError(errno.EFBIG, "it is too large", str(path))
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_text(path: Path) -> str | None:
    """Return the text, None if the file does not exist. Bytes that are not UTF-8 are kept (surrogateescape)."""
    try:
        data = read_file(path)
    except OSError as error:
        raise DomainError(f"Error while reading {path}: {error.strerror}") from error
    return None if data is None else data.decode("utf-8", "surrogateescape")


def text_or_nothing(root: str, path: str) -> str:
    """Return a file's text, empty if it does not exist or can't be read (not root)."""
    try:
        return read_text(under(root, path)) or ""
    except DomainError:
        return ""


def file_mode(path: Path) -> int | None:
    """Return the permission bits, None if the file does not exist."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


def put_file(path: Path, data: bytes | None, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Write a file atomically; None removes it. Raise OSError with the file's name.

    ``owner`` is (uid, gid). Missing directories are created with mode 0755.
    """
    if data is None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            sync_path(path.parent)
        return
    make_directory(path.parent)
    # If the process is killed, apt, systemd and others ignore the file because of its leading dot.
    try:
        handle, temporary = tempfile.mkstemp(dir=str(path.parent), prefix=f".{path.name}.")
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if owner:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        sync_path(path.parent)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise


def write_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file atomically. An existing file keeps its mode and owner, a new one gets ``mode``."""
    path = path.resolve()
    try:
        owner = None
        if path.exists():
            state = path.stat()
            mode, owner = stat.S_IMODE(state.st_mode), (state.st_uid, state.st_gid)
        put_file(path, text.encode("utf-8", "surrogateescape"), mode, owner)
    except OSError as error:
        raise DomainError(f"Error while writing {path}: {error.strerror}") from error


def make_directory(path: Path, mode: int = 0o755) -> None:
    """Create a directory with this mode if it is missing, and missing parents with mode 0755."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    # mkdir applies the umask, which is often 077 for root.
    path.chmod(mode)
    sync_path(path.parent)


def sync_path(path: Path) -> None:
    """Flush a file, or a directory with the names of its files, so that they survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # File systems without this operation, such as some network file systems on the controller.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Wait until no other process holds this directory, and hold it. The end of a process releases it."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def difference(path: Path, before: str | None, after: str | None) -> dict[str, str]:
    """Return one entry of a module's ``diff``."""
    return {
        "before_header": str(path),
        "after_header": str(path),
        "before": printable(before),
        "after": printable(after),
    }


def move_aside(paths: Iterable[Path], root: str, into: Path) -> list[str]:
    """Move files and directories under ``into`` (0700) with their paths; missing ones are skipped.

    Return their new paths.
    """
    moved = []
    for path in paths:
        if not os.path.lexists(path):
            continue
        target = into / path.relative_to(root)
        try:
            make_directory(into, 0o700)
            make_directory(target.parent, 0o700)
            # On another file system, this is a copy that must exist before the original is removed.
            shutil.move(str(path), str(target), copy_function=_copy)
            sync_path(target.parent)
            sync_path(path.parent)
        except OSError as error:
            raise DomainError(f"Error while moving {path} aside to {target}: {error.strerror or error}") from error
        moved.append(str(target))
    return moved


def _copy(source: str, target: str) -> None:
    shutil.copy2(source, target)
    sync_path(Path(target))
    sync_path(Path(target).parent)


def moved_aside(root: str) -> list[str]:
    """Return the times in the names of the directories that begin with ASIDE."""
    aside = under(root, ASIDE)
    return sorted(path.name[len(aside.name) :] for path in aside.parent.glob(f"{aside.name}*") if path.is_dir())


def deferred(root: str) -> str:
    """Return the record of deferred changes as text for the controller, empty if there is none.

    If it is too large, it is cut off one character above the limit, so that the controller rejects it.
    """
    text = text_or_nothing(root, DEFERRED)
    # An empty file is not the absent one that says that nothing is deferred.
    return printable(text or "\0" * under(root, DEFERRED).exists())[: LARGEST_DEFERRED + 1]


def time_stamp() -> str:
    """Return the current UTC time for a file name; the names sort by time."""
    return datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")


def printable(text: str | None) -> str:
    """Return the text for a module's result, with bytes that are not UTF-8 replaced."""
    return (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
