# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write archives of backups, read them back, encrypt them, and decide which old ones to delete."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Union

from .._command import Runner
from .._errors import DomainError
from .._files import sync_path
from .._words import moment
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


def describe(source: Source) -> Part:
    """Return size and checksum of a part."""
    if isinstance(source, bytes):
        return Part(hashlib.sha256(source).hexdigest(), len(source))
    with source.open("rb") as file:
        return digest(file)


def digest(file: BinaryIO) -> Part:
    """Return size and checksum of what is left to read."""
    found, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        found.update(chunk)
        size += len(chunk)
    return Part(found.hexdigest(), size)


def write_archive(path: Path, manifest: Manifest, parts: Mapping[str, Source]) -> None:
    """Write the parts, which ``manifest`` describes, to a new file with mode 0600, and sync it."""
    seconds = int(moment(manifest.taken) or 0)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, source in {MANIFEST: write_manifest(manifest).encode(), **parts}.items():
                _add(archive, name, source, seconds)
        file.flush()
        os.fsync(file.fileno())


def check_archive(path: Path) -> Manifest:
    """Read an archive as a restore does, and return its manifest. Raise DomainError for any damage."""
    try:
        with tarfile.open(path, "r:") as archive:
            found = archive.next()
            if found is None or found.name != MANIFEST or not found.isreg() or found.size > LARGEST_MANIFEST:
                raise DomainError(f"Error while reading {path}: it does not begin with a manifest")
            manifest = read_manifest(_read(archive, found).read().decode("utf-8", "replace"))
            seen = []
            while (found := archive.next()) is not None:
                check_part(manifest, found.name, digest(_read(archive, found)))
                seen.append(found.name)
    except tarfile.TarError as error:
        raise DomainError(f"Error while reading {path}: it is damaged or cut off ({error})") from error
    if sorted(seen) != sorted(manifest.parts):
        raise DomainError(f"Error while reading {path}: parts are missing or repeated")
    return manifest


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


def _read(archive: tarfile.TarFile, found: tarfile.TarInfo) -> BinaryIO:
    file = archive.extractfile(found) if found.isreg() else None
    if file is None:
        raise DomainError(f"Error while reading {found.name!r} in the backup: it is not a file")
    return file  # type: ignore[return-value]  # typeshed has the base class.
