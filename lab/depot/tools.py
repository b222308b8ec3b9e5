"""Run a tool of the host: its output goes to a log, and a failure is one readable error."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab import paths
from lab.depot.cache import DepotError

_TAIL = 25


def run(
    argv: Sequence[object],
    *,
    doing: str,
    log: str = "depot",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    nice: int = 0,
    stdin: bytes | None = None,
) -> str:
    """Run a command and return its standard output; standard error goes to logs/<log>.log.

    Raises DepotError with the end of the tool's output.
    """
    command = [str(part) for part in argv]
    if nice and shutil.which("nice"):
        command = ["nice", "-n", str(nice), *command]
    path = paths.logs() / f"{log}.log"
    with path.open("ab") as handle:
        handle.write(f"\n$ {' '.join(command)}\n".encode())
        handle.flush()
        start = handle.tell()
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                stdout=subprocess.PIPE,
                stderr=handle,
                check=False,
            )
        except FileNotFoundError as error:
            raise DepotError(
                f"Error while {doing}: {error.filename} is not there. Install it and run again."
            ) from error
    output = done.stdout.decode(errors="replace")
    if done.returncode:
        with path.open("rb") as handle:
            handle.seek(start)
            said = (output + handle.read().decode(errors="replace")).strip().splitlines()
        raise DepotError(
            f"Error while {doing}: {command[0]} ended with {done.returncode}:\n"
            + "\n".join(f"  {line}" for line in said[-_TAIL:])
            + f"\nThe whole output is in {path}; what is built already stays, so run the same command again."
        )
    return output


def killed(state: str, container: str, pid: int) -> bool:
    """Return whether the main process of a container that Podman reports as running has ended.

    This happens if its processes were killed together with its monitor; an attempt to stop it ends in "stopping".
    """
    if state not in ("running", "stopping"):
        return False
    try:
        return container not in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return True
