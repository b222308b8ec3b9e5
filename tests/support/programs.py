# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs as people start them: with their output in a pipe, or on a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pexpect

from support.hosts import ROOT


def run_ansible(
    folder: Path, *arguments: str, program: str = "ansible-playbook", timeout: float = 120, **more: str
) -> tuple[int, str]:
    """Run a program of this Python's Ansible in a folder, with this repository's collection; ``more`` is environment.

    Returns the exit status, and standard output with standard error behind it. What preflight found is there in full.
    """
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
        # It shows every task and result, so what must not be seen would be.
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        # The screen is shortened.
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/support/callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "gpulab_problems",
        **more,
    }
    playbook = next((place for place, word in enumerate(arguments) if word.endswith(".yml")), 0)
    first = [str(ROOT / "tests/support/load_filters.yml")] if program == "ansible-playbook" else []
    command = [str(Path(sys.executable).parent / program), *arguments[:playbook], *first, *arguments[playbook:]]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=timeout
    )
    return done.returncode, done.stdout + done.stderr


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
    how = {"encoding": "utf-8", "timeout": 240, "dimensions": (24, columns), "preexec_fn": hear_ctrl_c}
    return pexpect.spawn(command[0], command[1:], cwd=cwd, env=environment, **how)


def hear_ctrl_c() -> None:
    """Programs that a shell starts in the background ignore SIGINT, and so do all that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
