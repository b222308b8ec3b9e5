"""The command gpu-check: runs its parts in order and writes its table, report and archive."""

from __future__ import annotations

import argparse
import contextlib
import errno
import getpass
import importlib
import io
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

from gpu_check import archive, environment, forms, machine, modules, result
from gpu_check.containers import Containers
from gpu_check.kit import Kit, require_space
from gpu_check.nvml import Facts, Nvml
from gpu_check.programs import Programs, Torch, in_use
from gpu_check.result import CheckError, NotRunError, Part

# Seconds for the whole run. Parts that would start later are skipped, and programs that run longer are terminated.
_LIMIT = 170
_ROOT = Path(__file__).resolve().parent.parent
_CLOSING = {
    result.STATUS_AGREES: "All parts ran and agree.",
    result.STATUS_DIFFERS: "Something differs, see above.",
    result.STATUS_NOT_RUN: "A part could not run, see above.",
}


class Parser(argparse.ArgumentParser):
    """Exit with the status of a check that could not run; argparse's own status 2 means here that there is no GPU."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(result.STATUS_NOT_RUN, f"{self.prog}: error: {message}\n")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    files = f"{archive.REPORT} and {archive.ARCHIVE}"
    parser = Parser(
        prog="gpu-check",
        description="Compares what gpulab.kubernetes reads and claims about GPUs with the GPUs of this machine. "
        "Takes at most 3 minutes and changes nothing.",
        epilog="exit status: 0 all parts agree; 1 something differs; 2 no GPU or no driver; 3 a part could not run",
    )
    parser.add_argument("--out", type=Path, default=Path(), help=f"directory for {files} (default: .)")
    parser.add_argument("--python", default="", metavar="PATH", help="Python interpreter that has PyTorch")
    parser.add_argument("--script", type=Path, metavar="FILE", help="also run this script under torchrun on all GPUs")
    chosen = parser.parse_args(argv)
    if not chosen.out.is_dir():
        parser.error(f"--out {chosen.out} is not a directory")
    if chosen.script and not chosen.script.is_file():
        parser.error(f"--script {chosen.script} is not a file")
    if chosen.python and not shutil.which(chosen.python):
        parser.error(f"--python {chosen.python} is not a program")
    chosen.out = chosen.out.absolute()
    chosen.script = chosen.script and chosen.script.absolute()
    chosen.python = chosen.python and str(Path(shutil.which(chosen.python) or "").absolute())
    return chosen


class Check:
    """One run in the temporary directory ``work``."""

    def __init__(self, kit: Kit, work: Path, options: argparse.Namespace) -> None:
        self._kit, self._work, self._options = kit, work, options
        self._started = time.monotonic()
        self._raw = work / "raw"
        self._raw.mkdir()
        self.parts: list[Part] = []
        self.facts = Facts("", None)
        self.machine = machine.Machine()
        self._library = ("", "")
        self._has_topology = False
        self._torch: Torch | None = None
        # Only this process and Ansible use the kit's packages: PyTorch uses the machine's own.
        self._site = kit.unpack(work)
        sys.path[:0] = [str(self._site), str(kit.root)]
        importlib.invalidate_caches()
        self._environment = environment.clean(work)

    def run(self) -> None:
        """Run all parts. Raises CheckError if there is no GPU, no driver, or a GPU is lost."""
        with Nvml() as nvml:
            self._library = nvml.library()
            self._environment = environment.with_libraries(self._environment, self._library[0])
            self.machine = machine.read(self._library[0])
            self.facts = nvml.read()
            for gpu in self.facts.gpus:
                memory = f"{gpu.get('memory_total_mib', '?')} MiB"
                _print(f"GPU {gpu['index']}: {gpu.get('name', 'unknown')}, {memory}{self.simulated}")
            _print(f"Driver {self.facts.driver_version}, CUDA {self.facts.cuda_version or 'unknown'}")
            containers = Containers(self._kit.programs, self._work, self._environment, self._remaining)
            programs = Programs(self._environment, self._raw, self._remaining)
            self._part("readers", lambda part: self._readers(part, nvml))
            # Before the specification: the first CUDA program may create a device node that the specification lists.
            self._part("kernel", lambda part: self._kernel(part, nvml, programs))
            self._part("readers in use", lambda part: self._readers_in_use(part, nvml, programs))
            self._part("CDI specification", lambda part: self._specification(part, containers))
            self._part("modules", lambda part: self._modules(part, nvml, containers))
            self._part("isolation", lambda part: self._isolation(part, nvml, containers))
            self._part("training", lambda part: self._training(part, nvml, programs))
            if self._options.script:
                self._part("script", lambda part: self._script(part, nvml, programs))

    @property
    def simulated(self) -> str:
        return " (simulated)" if self.machine.simulated else ""

    def _remaining(self) -> float:
        return self._started + _LIMIT - time.monotonic()

    def _part(self, name: str, work: Callable[[Part], None]) -> None:
        part = Part(name)
        self.parts.append(part)
        started = time.monotonic()
        _print(f"{name} ... ", end="")
        try:
            if self._remaining() < 0:
                raise NotRunError(f"the time limit of {_LIMIT} s is reached")
            work(part)
        except (NotRunError, CheckError) as error:
            part.reason = str(error)
        except Exception as error:  # The other parts and the report are still useful.
            part.reason = f"unexpected {type(error).__name__}: {error}. Report this with {archive.ARCHIVE}"
            (self._raw / f"traceback-{name}.txt").write_text(traceback.format_exc())
        part.seconds = time.monotonic() - started
        _print(f"{part.state} ({part.seconds:.1f} s)")

    def _readers(self, part: Part, nvml: Nvml, suffix: str = "") -> None:
        """Compare the readers. ``suffix`` is part of the names of the files that are kept."""
        program = shutil.which("nvidia-smi", path=self._environment["PATH"])
        if program is None:
            raise NotRunError("there is no nvidia-smi in PATH")
        for _attempt in range(2):
            found = Part(part.name)
            before = nvml.read()
            outputs = forms.capture(program, {**self._environment, "LC_ALL": "C"}, self._remaining)
            after = nvml.read()
            forms.compare(found, outputs, before, after)
            # A process may have started or ended between the readings.
            if not forms.may_be_passing(found):
                break
        vars(part).update(vars(found))
        for name, output in outputs.items():
            (self._raw / f"nvidia-smi {name}{suffix}.txt").write_text(output.text)
        self._keep(f"nvml{suffix}.json", {"before": _as_json(before), "after": _as_json(after)})
        self._has_topology = outputs["topo -m"].status == 0

    def _readers_in_use(self, part: Part, nvml: Nvml, programs: Programs) -> None:
        """Compare again while every GPU is in use: otherwise processes, used memory and utilization are empty."""
        if any(part.name == "kernel" and part.state != result.AGREES for part in self.parts):
            raise NotRunError("the kernel did not run")
        self._require_no_mig()
        with programs.holding(self._kit.programs / "vectorAdd"):
            self._readers(part, nvml, " in use")

    def _specification(self, part: Part, containers: Containers) -> None:
        containers.generate(self._library[0])
        shutil.copy(containers.specification, self._raw / "cdi.yaml")
        containers.compare_with_files(part, self.facts)

    def _modules(self, part: Part, nvml: Nvml, containers: Containers) -> None:
        specification: Path | None = containers.specification
        if not containers.specification.is_file() or not Path("/run/systemd/system").is_dir():
            part.unavailable.append("nvidia_cdi_spec (no systemd, or no CDI specification)")
            specification = None
        before = nvml.read()
        variables = environment.for_ansible(self._environment, self._site, self._kit.root, self._work)
        found = modules.results(variables, self._work, before, specification, part, self._remaining())
        self._keep("modules.json", found)
        modules.compare(part, found, before, nvml.read(), self.machine, self._library, self._has_topology)

    def _isolation(self, part: Part, nvml: Nvml, containers: Containers) -> None:
        if not containers.specification.is_file():
            raise NotRunError("there is no CDI specification")
        self._require_idle(nvml)
        containers.check_isolation(part, self._kit.root / "rootfs.tar.gz", self.facts, self.machine.simulated)

    def _kernel(self, part: Part, nvml: Nvml, programs: Programs) -> None:
        self._require_idle(nvml)
        programs.kernel(part, self._kit.programs / "vectorAdd", self.facts, self.machine.simulated)

    def _training(self, part: Part, nvml: Nvml, programs: Programs) -> None:
        self._torch = programs.torch(self._options.python)
        part.figures["torch"] = self._torch.version
        self._require_whole_gpus(nvml)
        programs.training(part, self._torch, self._kit.root / "train_ddp.py", len(self.facts.gpus))
        programs.one_step(part, self._torch, self._kit.root / "minimal_ddp.py")

    def _script(self, part: Part, nvml: Nvml, programs: Programs) -> None:
        if self._torch is None:
            raise NotRunError("there is no usable torch, see training")
        self._require_whole_gpus(nvml)
        programs.user_script(part, self._torch, self._options.script)

    def _require_whole_gpus(self, nvml: Nvml) -> None:
        self._require_no_mig()
        self._require_idle(nvml)

    def _require_no_mig(self) -> None:
        if any(result.in_mig_mode(gpu) for gpu in self.facts.gpus):
            raise NotRunError("a GPU is in MIG mode")

    def _require_idle(self, nvml: Nvml) -> None:
        busy = in_use(nvml.read())
        if busy:
            raise NotRunError(busy)

    def _keep(self, name: str, value: Any) -> None:
        (self._raw / name).write_text(json.dumps(value, indent=1, default=str))

    def report(self) -> dict[str, Any]:
        """Return the content of archive.REPORT; ``schema`` changes when a key changes its meaning."""
        return {
            "schema": 1,
            "version": self._kit.version,
            "edited_files": self._kit.edited,
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "seconds": round(time.monotonic() - self._started, 1),
            "status": result.status(self.parts),
            "simulated": self.machine.simulated,
            "driver_version": self.facts.driver_version,
            "kernel_module": self.machine.kind,
            "cuda_version": self.facts.cuda_version,
            "gpus": [{key: gpu.get(key) for key in ("name", "memory_total_mib", "uuid")} for gpu in self.facts.gpus],
            "python": platform.python_version(),
            "system": _system(),
            "parts": [part.fields() for part in self.parts],
        }

    def write(self, directory: Path) -> None:
        """Write the report and the archive of raw outputs."""
        host = platform.node()
        names = {host: "host", host.partition(".")[0]: "host", str(self._work): "/work", str(self._kit.root): "/kit"}
        names |= dict.fromkeys(self.facts.serials, "0")
        names |= {name: "process" for one in self.facts.processes.values() for _pid, name in one if name}
        with contextlib.suppress(KeyError, OSError):
            names[getpass.getuser()] = "user"
        names.pop("root", None)
        archive.write(directory, self.report(), self._raw, names)


def main(argv: Sequence[str] | None = None) -> int:
    # Clean up files and child processes when terminated by a signal.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda ended, _frame: sys.exit(128 + ended))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        options = arguments(argv)
        kit = Kit(_ROOT)
        archive.require_writable(options.out)
        require_space(Path(tempfile.gettempdir()))
        with tempfile.TemporaryDirectory(prefix="gpu-check-") as directory:
            # The current directory may have been deleted.
            os.chdir(directory)
            check = Check(kit, Path(directory), options)
            check.run()
            _print("")
            _print(result.table(check.parts))
            if kit.edited:
                _print(f"This kit was edited: {', '.join(kit.edited)}")
            check.write(options.out)
    except CheckError as error:
        sys.stderr.write(f"gpu-check: {error}\n")
        return error.status
    except OSError as error:
        remedy = f" Free some space in {tempfile.gettempdir()}, or set TMPDIR." if error.errno == errno.ENOSPC else ""
        sys.stderr.write(f"gpu-check: {error}.{remedy}\n")
        return result.STATUS_NOT_RUN
    except Exception as error:  # An unhandled exception would exit with the status of a difference.
        sys.stderr.write(f"gpu-check: unexpected {type(error).__name__}: {error}. Report this.\n")
        return result.STATUS_NOT_RUN
    except KeyboardInterrupt:
        sys.stderr.write("\ngpu-check: interrupted\n")
        return 128 + signal.SIGINT
    status = result.status(check.parts)
    files = f"Report: {options.out / archive.REPORT}; raw outputs: {options.out / archive.ARCHIVE}"
    _print(f"\n{_CLOSING[status]} {files}{check.simulated}")
    return status


def _as_json(facts: Facts) -> dict[str, Any]:
    found = asdict(facts)
    found["topology"] = {f"{one},{other}": connection for (one, other), connection in facts.topology.items()}
    return found


def _system() -> str:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return f"{release.get('PRETTY_NAME', 'Linux')}, kernel {platform.release()}"


def _print(text: str, end: str = "\n") -> None:
    try:
        sys.stdout.write(text + end)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; still write the report.
        sys.stdout = io.StringIO()
