# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove a file and end a program when a run ends. A separate program that only needs Python's standard library.

Arguments: the file, the process ID of the run, then the program with its arguments, if there is one. When the process
has ended in any way, the file is removed. When the file is removed, the program is stopped.

If the program ends, it is restarted, but only once the file contains ``up``; before that, the keeper ends with it. Its
output is in ``FILE.log``. It is stopped with SIGTERM, and killed after five seconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_INTERVAL = 0.2


class Run:
    """The process of a run, and the file that exists as long as its program may run."""

    def __init__(self, file: Path, process: int) -> None:
        self.file, self._process = file, process
        self._stopped = False
        # A signal to the whole process group ends the run, too.
        signal.signal(signal.SIGTERM, self._stop)

    def goes_on(self) -> bool:
        return not self._stopped and self.file.exists() and lives(self._process)

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopped = True


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    with contextlib.suppress(OSError, IndexError):
        # A zombie has ended, too; the name in parentheses may contain anything.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def keep(run: Run, program: list[str]) -> int:
    """Keep the file and the program for a run; return the program's last exit status, 0 without a program."""
    log = Path(f"{run.file}.log")
    status = _keep_program(run, program, log) if program else 0
    while not program and run.goes_on():
        time.sleep(_INTERVAL)
    if not run.goes_on():
        for path in (run.file, log):
            path.unlink(missing_ok=True)
    return status


def _keep_program(run: Run, program: list[str], log: Path) -> int:
    status = 0
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as said:
        while run.goes_on():
            child = subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            while child.poll() is None and run.goes_on():
                time.sleep(_INTERVAL)
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(5)
                except subprocess.TimeoutExpired:
                    child.kill()
            status = child.wait()
            if _text(run.file) != "up":
                break
            time.sleep(1)
    return status


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(keep(Run(Path(sys.argv[1]), int(sys.argv[2])), sys.argv[3:]))
