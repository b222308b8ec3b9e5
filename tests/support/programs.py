# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs as people start them: with their output in a pipe, or on a terminal."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pexpect


def piped(command: list[str], cwd: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Return the exit status and all that was said, which holds no traceback."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stdout
    return done.returncode, done.stdout


def terminal(command: list[str], cwd: Path, environment: dict[str, str], columns: int) -> pexpect.spawn:
    """Start it on a terminal of 24 lines."""
    how = {"encoding": "utf-8", "timeout": 60, "dimensions": (24, columns), "preexec_fn": hear_ctrl_c}
    return pexpect.spawn(command[0], command[1:], cwd=cwd, env=environment, **how)


def hear_ctrl_c() -> None:
    """Programs that a shell starts in the background ignore SIGINT, and so do all that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
