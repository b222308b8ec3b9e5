# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs as people start them: with a pipe for the output, or on a terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect

from support.ansible_server import playbook_server
from support.hosts import ROOT

# Stand-ins for sudo, which accepts one password, and for ssh, which reaches no host.
SUDO = """#!/bin/sh
while :; do
  case "$1" in -p) printf %s "$2" >&2; shift 2;; -u) shift 2;; -*) shift;; *) break;; esac
done
read -r given
[ "$given" = "open sesame" ] && exec "$@"
echo wrong password >&2
exit 1
"""
SSH = """#!/bin/sh
[ "$1" = -V ] && exit 0
echo "ssh: connect to host 192.0.2.1 port 22: Connection timed out" >&2
exit 255
"""


def run_ansible(
    folder: Path, *arguments: str, program: str = "ansible-playbook", timeout: float = 120, **more: str
) -> tuple[int, str]:
    """Run a program of this Python's Ansible in a folder, with this repository's collection; ``more`` is environment.

    Return the exit status, and standard output followed by standard error, with the preflight problems in full.
    """
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
        # The default callback shows every task and result, so it would also show secrets.
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        # Prints the problems in full, because the screen shortens them.
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/support/callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "gpulab_problems",
        **more,
    }
    playbook = next((place for place, word in enumerate(arguments) if word.endswith(".yml")), 0)
    first = [str(ROOT / "tests/support/load_filters.yml")] if program == "ansible-playbook" else []
    words = [*arguments[:playbook], *first, *arguments[playbook:]]
    if program == "ansible-playbook":
        server = playbook_server(environment)
        status, output, errors = server.run(*words, directory=folder, environ=environment, timeout=timeout)
        return status, output + errors
    command = [str(Path(sys.executable).parent / program), *words]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=timeout
    )
    return done.returncode, done.stdout + done.stderr


def piped(command: list[str], cwd: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Return the exit status and the complete output, which must not contain a traceback."""
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
    """Start the program on a terminal of 24 lines."""
    how = {"encoding": "utf-8", "timeout": 240, "dimensions": (24, columns), "preexec_fn": hear_ctrl_c}
    return pexpect.spawn(command[0], command[1:], cwd=cwd, env=environment, **how)


def hear_ctrl_c() -> None:
    """Restore the default for SIGINT, which programs started in a shell's background inherit as ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def left_behind(temporary: Path, seconds: float = 0) -> list[str]:
    """Return the processes and temporary files that are left of a run after a grace period."""
    until = time.monotonic() + seconds
    while True:
        found = [command for command, environ in running() if str(temporary) in environ]
        found += [path.name for path in temporary.iterdir()]
        if not found or time.monotonic() >= until:
            return found
        time.sleep(0.1)


def running() -> Iterator[tuple[str, str]]:
    """Yield each process of this machine: its command line and its environment."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command, environ = ((process / name).read_text(errors="replace") for name in ("cmdline", "environ"))
            yield command.replace("\0", " "), environ
