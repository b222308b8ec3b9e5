# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decrypt and unpack the archive of a backup into a private directory, and verify all of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._command import CommandError, Runner
from .._etcd.snapshot import RESERVE
from .._files import make_directory
from .archive import ArchiveError, read_archive
from .manifest import ENCRYPTED, Manifest

_PLAIN = "archive.tar"
# Messages of age about an identity that is not one of the recipients', and about one that is none at all.
_OTHER_KEY = ("no identity matched", "incorrect passphrase")
_NO_KEY = ('reading "-"', "identity file", "passphrase")
_TIMEOUT = 1800


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
        manifest = read_archive(plain, parts)
        if plain != archive:
            plain.unlink()
        yield manifest, parts
    finally:
        shutil.rmtree(into, ignore_errors=True)


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
        raise ArchiveError("The text in restore_age_identity is not an identity of age, or it has a passphrase")
    # Its messages don't contain the identity, which only its standard input has.
    raise ArchiveError(f"The archive can't be decrypted, so it is truncated or was changed: {result.message}")


def _check_space(archive: Path, into: Path) -> None:
    # A decrypted archive is removed as soon as it is unpacked. The restored database needs the same space again.
    size = archive.stat().st_size * 3
    disk = os.statvfs(next(each for each in into.parents if each.exists()))
    free = disk.f_bavail * disk.f_frsize
    if free < size + RESERVE:
        raise CommandError(
            f"Error while unpacking {archive}: it needs {-(-(size + RESERVE) // 2**20)} MiB on the disk of "
            f"{into.parent}, and {free // 2**20} MiB are free. Nothing was changed."
        )
