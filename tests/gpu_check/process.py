"""Run a program with a time limit, and terminate it together with its descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gpu_check.result import NotRunError

# Maximum bytes of output that are read; the output for 64 GPUs is smaller.
_MOST = 4 * 2**20
# Seconds in which a program may exit by itself and terminate its own children.
_GRACE = 5.0


def run(
    command: Sequence[str], environment: Mapping[str, str], timeout: float, output: IO[Any] | None = None
) -> subprocess.CompletedProcess[str]:
    """Return the result of a program. With ``output``, both of its streams go there.

    Raises NotRunError if it can't be started, or does not end within ``timeout`` seconds.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with started(command, environment, output or out, output or err) as process:
            try:
                process.wait(max(timeout, 1))
            except subprocess.TimeoutExpired:
                words = " ".join([Path(command[0]).name, *command[1:]])[:100]
                raise NotRunError(f"{words} did not end within {max(timeout, 1):.0f} s") from None
        return subprocess.CompletedProcess(command, process.returncode, _text(out), _text(err))


@contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str], output: IO[Any], errors: IO[Any]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program during the block, and terminate it with all its descendants afterwards, even if interrupted.

    Raises NotRunError if it can't be started.
    """
    try:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
    except OSError as error:
        raise NotRunError(f"{Path(command[0]).name} can't be run: {error.strerror}") from None
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    # Descendants in their own session, such as torchrun's workers, can only be found while their parent is alive.
    others = _descendants(process.pid)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _descendants(pid: int) -> list[int]:
    """Return the descendants of a process."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if entry.name.isdigit():
                # The process name, in parentheses, may contain any character.
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def wait_for(path: Path, text: bytes, timeout: float) -> bool:
    """Return whether a file contains a text within ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if text in path.read_bytes():
            return True
        time.sleep(0.05)
    return False


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(_MOST).decode(errors="replace")
