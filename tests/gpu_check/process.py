"""Runs a program with a time limit, and ends it with all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from gpu_check.result import NotRunError

# The most of an output that is read, in bytes.
_MOST = 16 * 2**20


def run(
    command: Sequence[str], environment: Mapping[str, str], timeout: float, output: IO[Any] | None = None
) -> subprocess.CompletedProcess[str]:
    """Return how a program ended. With ``output``, both of its streams go there.

    Raises NotRunError if it can't be started, or does not end within ``timeout`` seconds.
    """
    name = Path(command[0]).name
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output or out,
                stderr=output or err,
                start_new_session=True,
            )
        except OSError as error:
            raise NotRunError(f"{name} can't be run: {error.strerror}") from None
        try:
            process.wait(max(timeout, 1))
        except subprocess.TimeoutExpired:
            words = " ".join([name, *command[1:]])
            raise NotRunError(f"{words[:100]} did not end within {max(timeout, 1):.0f} s") from None
        finally:
            # Also what outlives the program, and when this check is interrupted.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return subprocess.CompletedProcess(command, process.returncode, _text(out), _text(err))


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(_MOST).decode(errors="replace")
