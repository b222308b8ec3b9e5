# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a host: read with every byte kept, replaced in one step, moved aside rather than deleted."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ._errors import DomainError

BACKUP = ".gpulab-backup"


def under(root: str, path: str) -> Path:
    """Where an absolute path lies when ``root`` stands for the root directory."""
    return Path(root) / path.lstrip("/")


def read_text(path: Path) -> str | None:
    """The text of a file, None when there is none. Bytes that are not UTF-8 survive (surrogateescape)."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DomainError(f"Error while reading {path}: {error.strerror}") from error


def text_or_nothing(root: str, path: str) -> str:
    """A file's text; what is not there or can't be read (not root) counts as empty."""
    try:
        return read_text(under(root, path)) or ""
    except DomainError:
        return ""


def write_text(module: Any, path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step. An existing file keeps its mode and owner, a new one gets ``mode``."""
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            file.flush()
            os.fsync(file.fileno())
        module.atomic_move(temporary, str(path))
        if new:
            path.chmod(mode)
    except OSError as error:
        raise DomainError(f"Error while writing {path}: {error.strerror}") from error


def back_up(module: Any, path: Path) -> Path:
    """Keep a copy of a file beside it, with its mode and owner; only the one from before the first change."""
    backup = path.with_name(path.name + BACKUP)
    if not backup.exists():
        write_text(module, backup, read_text(path) or "")
        try:
            state = path.stat()
            backup.chmod(stat.S_IMODE(state.st_mode))
            os.chown(backup, state.st_uid, state.st_gid)
        except OSError as error:
            raise DomainError(f"Error while writing {backup}: {error.strerror}") from error
    return backup


def difference(path: Path, before: str | None, after: str | None) -> dict[str, str]:
    """One entry of a module's ``diff``."""
    return {
        "before_header": str(path),
        "after_header": str(path),
        "before": printable(before),
        "after": printable(after),
    }


def move_aside(paths: Iterable[Path], root: str, into: Path) -> list[str]:
    """Move files and directories under ``into`` (0700), keeping their paths; those that don't exist are left out.

    Returns the places where they lie now.
    """
    moved = []
    for path in paths:
        if not os.path.lexists(path):
            continue
        target = into / path.relative_to(root)
        try:
            into.mkdir(parents=True, exist_ok=True, mode=0o700)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.move(str(path), str(target))
        except OSError as error:
            raise DomainError(f"Error while moving {path} aside to {target}: {error.strerror or error}") from error
        moved.append(str(target))
    return moved


def time_stamp() -> str:
    """The time now in UTC, fit for a file name; later ones sort after earlier ones."""
    return datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")


def printable(text: str | None) -> str:
    """The text with what is not UTF-8 replaced, fit for a module's result."""
    return (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
