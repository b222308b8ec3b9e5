# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write archives of backups, read them back, encrypt them, and decide which old ones to delete."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Union

from .._command import Runner
from .._errors import DomainError
from .._files import make_directory, sync_path
from .._words import counted, moment
from .manifest import (
    LARGEST_MANIFEST,
    MANIFEST,
    Manifest,
    Part,
    check_part,
    read_archive_name,
    read_manifest,
    write_manifest,
)

Source = Union[bytes, Path]
_CHUNK = 1024 * 1024
_DAY = 86400


class ArchiveError(DomainError):
    """The archive can't be used. The message is a sentence."""


def describe(source: Source) -> Part:
    """Return size and checksum of a part."""
    if isinstance(source, bytes):
        return Part(hashlib.sha256(source).hexdigest(), len(source))
    with source.open("rb") as file:
        return digest(file)


def digest(file: IO[bytes], copy: IO[bytes] | None = None) -> Part:
    """Return size and checksum of what is left to read, and write it to ``copy``."""
    found, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        found.update(chunk)
        size += len(chunk)
        if copy:
            copy.write(chunk)
    return Part(found.hexdigest(), size)


def write_archive(path: Path, manifest: Manifest, parts: Mapping[str, Source]) -> None:
    """Write the parts, which ``manifest`` describes, to a new file with mode 0600, and sync it."""
    seconds = int(moment(manifest.taken) or 0)
    with _new_file(path) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, source in {MANIFEST: write_manifest(manifest).encode(), **parts}.items():
            _add(archive, name, source, seconds)


def read_archive(archive: Path, into: Path | None = None) -> Manifest:
    """Verify a plain archive, and return its manifest. Raise ArchiveError.

    With ``into``, its parts are written below this directory, and synced. Nothing that members are named or linked to
    can lead to another place: only the parts that the manifest lists are written, and the manifest accepts only names
    below its own directories.
    """
    try:
        with archive.open("rb") as file, tarfile.open(fileobj=file, mode="r|") as tar:
            return _read(tar, into)
    except (tarfile.TarError, EOFError) as error:
        raise ArchiveError(f"The archive is truncated, or is not one of this collection's: {error}") from error


def encrypt(runner: Runner, path: Path, target: Path, recipients: Iterable[str]) -> None:
    """Encrypt an archive for the recipients into a new file, and sync it."""
    options = [word for each in recipients for word in ("--recipient", each)]
    argv = ["age", "--encrypt", *options, f"--output={target}", str(path)]
    runner.check(argv, f"encrypting {path}", timeout=1800)
    # What is encrypted is longer than the text, so a shorter file was cut off.
    if target.stat().st_size <= path.stat().st_size:
        raise DomainError(f"Error while encrypting {path}: age has written only {target.stat().st_size} bytes")
    target.chmod(0o600)
    sync_path(target)


@dataclass(frozen=True)
class Retention:
    """How many archives to keep, on how many days one more each, and when this cluster began, in seconds since 1970."""

    count: int
    days: int
    since: float = 0.0


def expired(names: Iterable[str], newest: str, now: float, keep: Retention) -> list[str]:
    """Return the archives of this cluster to delete: all but the newest ones, and the last one of each recent day.

    ``newest`` is the one that was just written. It is never deleted, and other files are not mentioned. Older archives
    than the cluster are those of a former one with the same name, of which they may be all that is left. Archives from
    the future, when the clock was or is wrong, do not take the places of others.
    """
    cluster = getattr(read_archive_name(newest), "cluster", "")
    read = {name: read_archive_name(name) for name in names if name != newest}
    taken = {name: moment(each.taken) or 0.0 for name, each in read.items() if each and each.cluster == cluster}
    own = {name: when for name, when in taken.items() if keep.since <= when <= now}
    by_age = sorted(own, key=lambda name: own[name], reverse=True)
    # The newest one is that of today.
    last_of_day = {now // _DAY: newest}
    for name in by_age:
        last_of_day.setdefault(own[name] // _DAY, name)
    daily = {name for day, name in last_of_day.items() if day > now // _DAY - keep.days}
    return [name for name in by_age[keep.count - 1 :] if name not in daily]


def _add(archive: tarfile.TarFile, name: str, source: Source, seconds: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.mtime = 0o600, seconds
    entry.uname = entry.gname = "root"
    if isinstance(source, bytes):
        entry.size = len(source)
        archive.addfile(entry, io.BytesIO(source))
        return
    entry.size = source.stat().st_size
    with source.open("rb") as file:
        archive.addfile(entry, file)


def _read(tar: tarfile.TarFile, into: Path | None) -> Manifest:
    manifest: Manifest | None = None
    seen: set[str] = set()
    for member in tar:
        if not member.isreg():
            raise ArchiveError(f"The archive was changed: {member.name[:200]!r} in it is not a regular file")
        content = tar.extractfile(member)
        if content is None:
            raise ArchiveError(f"The archive was changed: {member.name[:200]!r} in it has no content")
        if manifest is None:
            manifest = _manifest(member, content)
            continue
        if member.name not in manifest.parts:
            raise ArchiveError(f"The archive was changed: its manifest does not list {member.name[:200]!r}")
        if member.name in seen:
            raise ArchiveError(f"The archive was changed: it has {member.name} twice")
        # Before it is written, because the manifest has the limit.
        _check(manifest, member.name, Part(manifest.parts[member.name].sha256, member.size))
        seen.add(member.name)
        _check(manifest, member.name, _write(content, into / member.name) if into else digest(content))
    if manifest is None:
        raise ArchiveError("The archive is truncated: it is empty")
    missing = [name for name in manifest.parts if name not in seen]
    if missing:
        raise ArchiveError(f"The archive is truncated: it lacks {counted(len(missing), 'part')}, such as {missing[0]}")
    return manifest


def _manifest(member: tarfile.TarInfo, content: IO[bytes]) -> Manifest:
    if member.name != MANIFEST or member.size > LARGEST_MANIFEST:
        raise ArchiveError(f"The archive is not one of this collection's: it does not begin with {MANIFEST}")
    try:
        return read_manifest(content.read().decode("utf-8", "replace"))
    except DomainError as error:
        raise ArchiveError(f"The archive was changed, or is of a newer version of this collection: {error}") from error


def _check(manifest: Manifest, name: str, found: Part) -> None:
    try:
        check_part(manifest, name, found)
    except DomainError as error:
        raise ArchiveError(f"The archive was changed: {error}") from error


def _write(content: IO[bytes], path: Path) -> Part:
    make_directory(path.parent, 0o700)
    with _new_file(path) as file:
        found = digest(content, file)
    sync_path(path.parent)
    return found


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """Provide a new file with mode 0600, and sync it at the end."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
