"""Runs programs on the GPUs: a kernel that computes, and a training with PyTorch and NCCL."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_check.nvml import Facts
from gpu_check.result import NotRunError, Part

_SUMMARY = "TORCH_DDP_SUMMARY "
_UUID = re.compile(r"^GPU \d+: .*\(UUID: ([0-9a-f-]+)\)", re.MULTILINE)
_TORCH = "import json, torch; print(json.dumps([torch.__version__, torch.version.cuda, torch.cuda.device_count()]))"
# Memory in use by processes that can't be seen from inside of a container.
_IDLE_MIB = 1024


def in_use(facts: Facts) -> str:
    """Return which GPU is in use and by what, empty if none is. A program on it could take memory from a job."""
    for index, processes in facts.processes.items():
        if processes:
            names = ", ".join(f"{name or 'a process'} ({pid})" for pid, name in processes)
            return f"GPU {index} is in use by {names}; end it, then run gpu-check again"
        used = facts.gpus[index].get("memory_used_mib", 0)
        if used > _IDLE_MIB:
            return f"{used} MiB of GPU {index} are in use by a process that can't be seen from here"
    return ""


def kernel(part: Part, program: Path, environment: Mapping[str, str], facts: Facts, raw: Path) -> None:
    """Run the kernel on every GPU, and once with a result that was changed on purpose. Raises NotRunError."""
    where = "vectorAdd"
    done = _run([str(program)], environment, raw / "vectorAdd.txt", 60)
    if "[simulated]" in done.stdout:
        raise NotRunError("there is no libcuda.so.1 on this machine: the GPUs are simulated")
    part.compare(where, "exit status", done.returncode, 0)
    if done.returncode:
        part.notes.append(_last(done.stderr))
        return
    part.compare(where, "result", "Test PASSED" in done.stdout, True)
    if not any(gpu.get("mig.current") == "Enabled" for gpu in facts.gpus):
        expected = {gpu["uuid"].removeprefix("GPU-") for gpu in facts.gpus}
        part.compare(where, "UUIDs of the GPUs", set(_UUID.findall(done.stdout)), expected)
    done = _run([str(program), "--corrupt"], environment, raw / "vectorAdd-corrupt.txt", 60)
    found = "Result verification failed" in done.stderr and done.returncode == 1
    part.compare(where, "detection of an element that was changed on purpose", found, True)


def torch_python(chosen: str, environment: Mapping[str, str]) -> tuple[str, list[Any]]:
    """Return the interpreter that has PyTorch, and [its version, its CUDA, how many GPUs it sees].

    Raises NotRunError if there is none.
    """
    names = [chosen] if chosen else ["python3", sys.executable, "python"]
    candidates = dict.fromkeys(path for path in map(shutil.which, names) if path)
    for python in candidates:
        done = subprocess.run([python, "-c", _TORCH], env=environment, capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            found: list[Any] = json.loads(done.stdout.splitlines()[-1])
            if found[1] is None or not found[2]:
                what = "is built without CUDA" if found[1] is None else "finds no GPU"
                raise NotRunError(f"the torch {found[0]} of {python} {what}")
            return python, found
    tried = ", ".join(candidates) or chosen or "python3"
    raise NotRunError(f"no torch in {tried}; name the interpreter that has it with --python")


def training(
    part: Part, python: str, torch: list[Any], script: Path, environment: Mapping[str, str], raw: Path
) -> None:
    """Train with the example of the collection on all GPUs, and note its figures."""
    done = _torchrun(python, torch[2], [str(script), "--epochs", "3"], environment, raw / "training.txt")
    where = script.name
    part.compare(where, "exit status", done.returncode, 0)
    lines = [line for line in done.stdout.splitlines() if line.startswith(_SUMMARY)]
    if done.returncode or not lines:
        part.notes.append(_last(done.stderr))
        return
    summary = json.loads(lines[-1].removeprefix(_SUMMARY))
    part.compare(where, "backend", summary["backend"], "nccl")
    part.compare(where, "processes", summary["processes"], torch[2])
    part.compare(where, "ranks_equal", summary["ranks_equal"], True)
    part.compare(where, "loss goes down", summary["loss"][-1] < summary["loss"][0], True)
    part.figures.update(summary)
    if torch[2] == 1:
        part.unavailable.append("NCCL between GPUs (there is one GPU)")


def own_script(
    part: Part, python: str, torch: list[Any], script: Path, environment: Mapping[str, str], raw: Path
) -> None:
    """Run a script of the user's under torchrun, with one process per GPU."""
    done = _torchrun(python, torch[2], [str(script)], environment, raw / "script.txt")
    part.compare(script.name, "exit status", done.returncode, 0)
    if done.returncode:
        part.notes.append(_last(done.stderr))


def _torchrun(
    python: str, processes: int, command: list[str], environment: Mapping[str, str], log: Path
) -> subprocess.CompletedProcess[str]:
    run = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}", *command]
    return _run(run, environment, log, 75)


def _run(
    command: list[str], environment: Mapping[str, str], log: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotRunError(f"{Path(command[0]).name} can't be run: {error}") from None
    log.write_text(f"{done.stdout}\n{done.stderr}")
    return done


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "it printed nothing")[:500]
