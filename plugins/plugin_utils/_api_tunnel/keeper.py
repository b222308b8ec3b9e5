# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps a program running while a file is there and a process lives. A program of its own: only Python's library.

Arguments: the file, the process, then the program with its arguments. The program is started again when it ends,
but only once the file says V(up); before that its first end is the keeper's, too. What it says is in C(FILE.log).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

_INTERVAL = 0.2


def keep(state: Path, process: int, program: list[str]) -> int:
    """Return the exit status of the program's last run."""
    log = Path(f"{state}.log")
    status = 0
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as said:
        while _wanted(state, process):
            child = subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            while child.poll() is None and _wanted(state, process):
                time.sleep(_INTERVAL)
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(5)
                except subprocess.TimeoutExpired:
                    child.kill()
            status = child.wait()
            if _text(state) != "up":
                break
            time.sleep(1)
    if not _wanted(state, process):
        for path in (state, log):
            path.unlink(missing_ok=True)
    return status


def _wanted(state: Path, process: int) -> bool:
    return state.exists() and lives(process)


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    with contextlib.suppress(OSError, IndexError):
        # A zombie is dead all the same; the name in parentheses may hold anything.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(keep(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
