# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs programs in forks of a process that has imported them: new processes without the cost of starting Python."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO


class ForkServer:
    """The process from which the programs are forked; ``launcher`` is a Python program that calls `serve`."""

    def __init__(self, launcher: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            launcher, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environ
        )

    def run(self, *arguments: str, directory: Path, environ: Mapping[str, str], timeout: float) -> tuple[int, str, str]:
        """Return the exit status, standard output and standard error of a program with these arguments.

        Raises subprocess.TimeoutExpired after ``timeout`` seconds.
        """
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            # Another process can open these files as long as this one has them open.
            files = [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (stdout, stderr)]
            call = {"arguments": arguments, "cwd": str(directory), "environ": dict(environ), "files": files}
            assert self._process.stdin
            self._process.stdin.write(json.dumps(call).encode() + b"\n")
            pid = self._answer()
            assert self._process.stdout
            late = not select.select([self._process.stdout], [], [], timeout)[0]
            if late:
                os.kill(pid, signal.SIGKILL)
            status = self._answer()
            if late:
                raise subprocess.TimeoutExpired(arguments[0], timeout)
            return status, _text(stdout), _text(stderr)

    def _answer(self) -> int:
        assert self._process.stdout
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode()


def serve(prepare: Callable[..., Any], run: Callable[..., Any]) -> None:
    """Call ``run`` in a fork for each call of `ForkServer.run`, until standard input ends.

    ``prepare`` is called before the fork, with the same arguments.
    """
    for line in sys.stdin.buffer:
        call: dict[str, Any] = json.loads(line)
        # An error is the fork's to report.
        with contextlib.suppress(Exception):
            prepare(*call["arguments"])
        # Otherwise garbage collections and the end of each fork would visit all imported objects.
        gc.freeze()
        pid = os.fork()
        if not pid:
            _become(call)
            run(*call["arguments"])
            return
        os.write(1, b"%d\n" % pid)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _become(call: Mapping[str, Any]) -> None:
    """Be the process that ``call`` describes."""
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["environ"])
    for number, path, flags in zip(range(3), ["/dev/null", *call["files"]], [os.O_RDONLY, os.O_RDWR, os.O_RDWR]):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
