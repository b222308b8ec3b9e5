"""Run programs on the GPUs: a kernel that computes, and a training with PyTorch and NCCL."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpu_check.nvml import Facts
from gpu_check.process import run, started, wait_for
from gpu_check.result import NotRunError, Part, in_mig_mode, last_line

UUID = re.compile(r"^GPU \d+: .*\(UUID: (?:GPU-)?([0-9a-f-]+)\)", re.MULTILINE)
_RANK = re.compile(r"^rank (\d+) of \d+: nccl, cuda:\d+, all processes have the same parameters$", re.MULTILINE)
# A build of PyTorch has code for some compute capabilities, and PTX for newer ones.
_TORCH = """
import json, re, torch
gpus = torch.cuda.device_count() if torch.version.cuda else 0
own = [torch.cuda.get_device_capability(i) for i in range(gpus)]
codes = [re.match(r"(sm|compute)_(\\d+)(\\d)", name) for name in torch.cuda.get_arch_list()] if gpus else []
known = [(code[1], int(code[2]), int(code[3])) for code in codes if code]
fits = all(
    any((kind == "compute" or major == mine[0]) and (major, minor) <= mine for kind, major, minor in known)
    for mine in own
)
print(json.dumps([torch.__version__, torch.version.cuda, gpus, fits]))
"""
# Memory in use by processes that are not visible from inside a container.
_IDLE_MIB = 1024


@dataclass(frozen=True)
class Torch:
    """An interpreter with PyTorch: the version of PyTorch, and the number of GPUs that it sees."""

    python: str
    version: str
    gpus: int


class Programs:
    """Runs programs in ``environment`` and keeps their output in ``raw``. ``remaining`` returns the seconds left."""

    def __init__(self, environment: Mapping[str, str], raw: Path, remaining: Callable[[], float]) -> None:
        self._environment, self._raw, self._remaining = environment, raw, remaining

    def kernel(self, part: Part, program: Path, facts: Facts, simulated: bool) -> None:
        """Run the kernel on every GPU, and once with a deliberately wrong result. Raises NotRunError."""
        if any(in_mig_mode(gpu) for gpu in facts.gpus) and not _has_device(facts):
            raise NotRunError("a GPU in MIG mode has no MIG device")
        where = "vectorAdd"
        done = self._run([str(program)], "vectorAdd.txt", 60)
        if "[simulated]" in done.stdout:
            reason = "the GPUs are simulated" if simulated else "install the driver's compute libraries"
            raise NotRunError(f"there is no libcuda.so.1 on this machine: {reason}")
        part.compare(where, "exit status", done.returncode, 0)
        if done.returncode:
            part.notes.append(last_line(done.stderr))
            return
        part.compare(where, "result", "Test PASSED" in done.stdout, True)
        if not any(in_mig_mode(gpu) for gpu in facts.gpus):
            expected = {gpu["uuid"].removeprefix("GPU-") for gpu in facts.gpus}
            part.compare(where, "UUIDs of the GPUs", set(UUID.findall(done.stdout)), expected)
        done = self._run([str(program), "--corrupt"], "vectorAdd-corrupt.txt", 60)
        found = "Result verification failed" in done.stderr and done.returncode == 1
        part.compare(where, "detection of an element that was changed on purpose", found, True)

    @contextmanager
    def holding(self, program: Path) -> Iterator[None]:
        """Keep every GPU in use during the block. Raises NotRunError if that fails."""
        log = self._raw / "vectorAdd-hold.txt"
        with log.open("wb") as output, started([str(program), "--hold"], self._environment, output, output):
            if not wait_for(log, b"Test PASSED", min(30, self._remaining())):
                raise NotRunError(f"the GPUs can't be kept in use: {last_line(log.read_text(errors='replace'))}")
            yield

    def torch(self, chosen: str) -> Torch:
        """Return the interpreter whose PyTorch supports these GPUs. Raises NotRunError if there is none."""
        names = [chosen] if chosen else ["python3", sys.executable, "python"]
        found = (shutil.which(name, path=self._environment["PATH"]) for name in names)
        candidates = dict.fromkeys(path for path in found if path)
        for python in candidates:
            done = self._run([python, "-c", _TORCH], "torch.txt", 60)
            if done.returncode:
                continue
            try:
                version, cuda, gpus, fits = json.loads(done.stdout.splitlines()[-1])
            except (ValueError, IndexError):
                continue
            problem = "is built without CUDA" if cuda is None else "finds no GPU" if not gpus else ""
            problem = problem or ("" if fits else "has no code for these GPUs")
            if problem:
                raise NotRunError(f"the torch {version} of {python} {problem}")
            return Torch(python, str(version), int(gpus))
        tried = ", ".join(candidates) or chosen or "python3"
        raise NotRunError(f"no torch in {tried}; name the interpreter that has it with --python")

    def training(self, part: Part, torch: Torch, script: Path, gpus: int) -> None:
        """Train with the collection's example on all ``gpus``, and record its figures."""
        from ansible_collections.gpulab.kubernetes.plugins.module_utils._training.log import summary as read_summary

        done = self._torchrun(torch, [str(script), "--epochs", "3"], "training.txt")
        where = script.name
        part.compare(where, "exit status", done.returncode, 0)
        part.compare(where, "GPUs that PyTorch sees", torch.gpus, gpus)
        summary = read_summary(done.stdout)
        if done.returncode or not summary:
            part.compare(where, "summary", bool(summary), True)
            part.notes.append(last_line(done.stderr))
            return
        loss = summary.get("loss") or [0, 0]
        part.compare(where, "backend", summary.get("backend"), "nccl")
        part.compare(where, "processes", summary.get("processes"), torch.gpus)
        part.compare(where, "ranks_equal", summary.get("ranks_equal"), True)
        part.compare(where, "loss goes down", loss[-1] < loss[0], True)
        part.figures.update(summary)
        if torch.gpus == 1:
            part.unavailable.append("NCCL between GPUs (there is one GPU)")

    def one_step(self, part: Part, torch: Torch, script: Path) -> None:
        """Run one training step on all GPUs with a script that knows nothing about this collection."""
        done = self._torchrun(torch, [str(script)], "one-step.txt")
        part.compare(script.name, "exit status", done.returncode, 0)
        ranks = sorted(int(rank) for rank in _RANK.findall(done.stdout))
        part.compare(script.name, "ranks with NCCL and the same parameters", ranks, list(range(torch.gpus)))
        if done.returncode:
            part.notes.append(last_line(done.stderr))

    def user_script(self, part: Part, torch: Torch, script: Path) -> None:
        """Run a script of the user under torchrun, with one process per GPU."""
        done = self._torchrun(torch, [str(script)], "script.txt")
        part.compare(script.name, "exit status", done.returncode, 0)
        if done.returncode:
            part.notes.append(last_line(done.stderr))

    def _torchrun(self, torch: Torch, script: list[str], log: str) -> subprocess.CompletedProcess[str]:
        # Not --standalone: it uses the host's name, which may not resolve.
        place = ["--nnodes=1", "--node_rank=0", "--master_addr=127.0.0.1", f"--master_port={_free_port()}"]
        command = [torch.python, "-m", "torch.distributed.run", *place, f"--nproc_per_node={torch.gpus}", *script]
        return self._run(command, log, 75)

    def _run(self, command: list[str], log: str, timeout: float) -> subprocess.CompletedProcess[str]:
        done = run(command, self._environment, min(timeout, self._remaining()))
        (self._raw / log).write_text(f"{done.stdout}\n{done.stderr}")
        return done


def in_use(facts: Facts) -> str:
    """Return which GPU is in use and by what, or an empty string. A program on it could take memory from a job."""
    for index, processes in facts.processes.items():
        if processes:
            names = ", ".join(f"{name or 'a process'} ({pid})" for pid, name in processes)
            return f"GPU {index} is in use by {names}; end it, then run gpu-check again"
        used = facts.gpus[index].get("memory_used_mib", 0)
        if used > _IDLE_MIB and not facts.graphics.get(index):
            return f"{used} MiB of GPU {index} are in use by a process that can't be seen from here"
    return ""


def _has_device(facts: Facts) -> bool:
    return any(gpu["mig.devices"] or not in_mig_mode(gpu) for gpu in facts.gpus)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
