"""Cached build results: a directory exists completely, with the key of its sources, or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from lab import paths, progress

_KEY = ".key"


class DepotError(Exception):
    """A step of the depot failed; the message contains the step, the tool's output, and what to do."""


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold a lock that all labs of this user share; if it is taken, print that and wait."""
    path = paths.locks() / f"{name}.lock"
    with path.open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"Waiting for another lab that holds {path}.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def digest(*parts: object) -> str:
    """Return a short cache key of these values."""
    return hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()[:24]


@lru_cache
def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def tree_digest(*roots: Path) -> str:
    """Return the cache key of source files: names and contents of all files below the given paths."""
    files = [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*")))]
    kept = [path for path in files if path.is_file() and "__pycache__" not in path.parts]
    return digest(*(f"{path.name}:{file_digest(path)}" for path in kept))


def key_of(directory: Path) -> str:
    """Return the key with which a finished directory was built, or an empty text."""
    path = directory / _KEY
    return path.read_text() if path.is_file() else ""


@contextmanager
def fresh(directory: Path, key: str) -> Iterator[Path]:
    """Yield an empty directory to build in; it replaces `directory` if the block ends without an error."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{directory.name}."
    for left_over in directory.parent.glob(f"{prefix}*"):
        remove(left_over)
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=directory.parent))
    try:
        work.chmod(0o755)
        yield work
        (work / _KEY).write_text(key)
        if directory.exists():
            directory.rename(work.with_name(f"{work.name}.old"))
        work.rename(directory)
    finally:
        for left_over in directory.parent.glob(f"{work.name}*"):
            remove(left_over)


def remove(directory: Path) -> None:
    """Remove a directory, including read-only parts."""
    if not directory.exists():
        return
    for root, names, _files in os.walk(directory):
        for name in names:
            child = Path(root, name)
            if not child.is_symlink():
                child.chmod(0o755)
    shutil.rmtree(directory)


def replace_text(path: Path, text: str | bytes) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.with_name(f".{path.name}.new")
    work.write_bytes(text.encode() if isinstance(text, str) else text)
    work.replace(path)
