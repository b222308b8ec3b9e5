# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a host as bytes: read, written whole or not at all, put back as they were."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def read_file(path: Path) -> bytes | None:
    """The content, None when there is no such file."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def file_mode(path: Path) -> int | None:
    """The permission bits, None when there is no such file."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


def put_file(path: Path, data: bytes | None, mode: int = 0o644) -> None:
    """Make the file hold exactly this, in one step; None removes it. Directories are made, open to read for all."""
    if data is None:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True)
        # mkdir obeys the umask, which is often 077 for root.
        path.parent.chmod(0o755)
    # A leading dot: apt, systemd and the like pass over it, should the process be killed half-way.
    handle, temporary = tempfile.mkstemp(dir=str(path.parent), prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
