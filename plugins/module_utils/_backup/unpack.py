# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decrypt and unpack the archive of a backup into a private directory, and verify all of it.

Nothing that the archive's members are named or linked to can lead to another place: only the parts that its manifest
lists are written, and the manifest accepts only names below its own directories.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .._command import CommandError, Runner
from .._errors import DomainError
from .._files import make_directory, sync_path
from .._words import counted
from .manifest import ENCRYPTED, LARGEST_MANIFEST, MANIFEST, Manifest, Part, check_part, read_manifest

_BLOCK = 1024 * 1024
_PLAIN = "archive.tar"
# Bytes that must stay free.
_RESERVE = 256 * 2**20
# Messages of age about an identity that is not one of the recipients', and about one that is none at all.
_OTHER_KEY = ("no identity matched", "incorrect passphrase")
_NO_KEY = ('reading "-"', "identity file", "passphrase")
_TIMEOUT = 1800


class ArchiveError(DomainError):
    """The archive can't be used. The message is a sentence."""


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            found.update(block)
    return found.hexdigest()


@contextmanager
def unpacked(module: Any, archive: Path, into: Path, age: str, identity: str) -> Iterator[tuple[Manifest, Path]]:
    """Provide the manifest and the directory with the verified parts, which is removed afterwards.

    ``identity`` is the text of an identity of age; it reaches age by its standard input. Raise ArchiveError.
    """
    shutil.rmtree(into, ignore_errors=True)
    _check_space(archive, into)
    make_directory(into, 0o700)
    try:
        plain = _decrypt(module, archive, into / _PLAIN, age, identity) if archive.name.endswith(ENCRYPTED) else archive
        parts = into / "parts"
        make_directory(parts, 0o700)
        manifest = unpack(plain, parts)
        if plain != archive:
            plain.unlink()
        yield manifest, parts
    finally:
        shutil.rmtree(into, ignore_errors=True)


def unpack(archive: Path, into: Path) -> Manifest:
    """Write the parts of a plain archive below a directory, synced, and return its manifest. Raise ArchiveError."""
    try:
        with archive.open("rb") as file, tarfile.open(fileobj=file, mode="r|") as tar:
            return _unpack(tar, into)
    except (tarfile.TarError, EOFError) as error:
        raise ArchiveError(f"The archive is truncated, or is not one of this collection's: {error}") from error


def _unpack(tar: tarfile.TarFile, into: Path) -> Manifest:
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
        if member.name not in manifest.parts or member.name in seen:
            raise ArchiveError(f"The archive was changed: its manifest does not list {member.name[:200]!r} once more")
        # Before it is written, because the manifest has the limit.
        _check(manifest, member.name, Part(manifest.parts[member.name].sha256, member.size))
        seen.add(member.name)
        _check(manifest, member.name, _write(content, into / member.name))
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
        raise ArchiveError(f"The archive was changed: {error}") from error


def _check(manifest: Manifest, name: str, found: Part) -> None:
    try:
        check_part(manifest, name, found)
    except DomainError as error:
        raise ArchiveError(f"The archive was changed: {error}") from error


def _write(content: IO[bytes], path: Path) -> Part:
    make_directory(path.parent, 0o700)
    found, size = hashlib.sha256(), 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for block in iter(lambda: content.read(_BLOCK), b""):
            file.write(block)
            found.update(block)
            size += len(block)
        file.flush()
        os.fsync(file.fileno())
    sync_path(path.parent)
    return Part(found.hexdigest(), size)


def _decrypt(module: Any, archive: Path, into: Path, age: str, identity: str) -> Path:
    if not identity.strip():
        raise ArchiveError("The archive is encrypted, and no identity of age was given (restore_age_identity)")
    argv = [age, "--decrypt", "--identity", "-", "--output", str(into), str(archive)]
    result = Runner(module, timeout=_TIMEOUT).run(argv, data=identity.strip() + "\n")
    if result.rc == 0:
        into.chmod(0o600)
        return into
    if any(text in result.stderr for text in _OTHER_KEY):
        raise ArchiveError("The archive is encrypted for other recipients than the identity that was given")
    if any(text in result.stderr for text in _NO_KEY):
        raise ArchiveError("The identity of age (restore_age_identity) is not one, or has a passphrase")
    # Its messages don't contain the identity, which only its standard input has.
    raise ArchiveError(f"The archive can't be decrypted, so it is truncated or was changed: {result.message}")


def _check_space(archive: Path, into: Path) -> None:
    # A decrypted archive is removed as soon as it is unpacked. The restored database needs the same space again.
    size = archive.stat().st_size * 3
    disk = os.statvfs(next(each for each in into.parents if each.exists()))
    free = disk.f_bavail * disk.f_frsize
    if free < size + _RESERVE:
        raise CommandError(
            f"Error while unpacking {archive}: it needs {-(-(size + _RESERVE) // 2**20)} MiB on the disk of "
            f"{into.parent}, and {free // 2**20} MiB are free. Nothing was changed."
        )
