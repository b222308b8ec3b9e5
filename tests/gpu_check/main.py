"""The command gpu-check: its parts in order, its table, its report and its archive."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import platform
import shutil
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

from gpu_check import containers, forms, machine, modules, programs, result, scrub
from gpu_check.kit import Kit, require_space
from gpu_check.nvml import Facts, Nvml
from gpu_check.result import CheckError, NotRunError, Part

# Seconds for the whole run. A part that would begin later is not run.
_LIMIT = 170
REPORT, ARCHIVE = "gpu-check.json", "gpu-check-raw.tar.gz"
_EPILOG = "exit status: 0 all parts agree; 1 something differs; 2 no GPU or no driver; 3 a part could not run"


class Parser(argparse.ArgumentParser):
    """Exits with the status of a check that could not run: argparse's own 2 means that there is no GPU."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(result.STATUS_NOT_RUN, f"{self.prog}: error: {message}\n")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog="gpu-check",
        description="Compares what gpulab.kubernetes reads and claims about GPUs with the GPUs of this machine. "
        "Takes at most 3 minutes and changes nothing.",
        epilog=_EPILOG,
    )
    parser.add_argument("--out", type=Path, default=Path(), help=f"directory for {REPORT} and {ARCHIVE} (default: .)")
    parser.add_argument("--python", default="", metavar="PATH", help="Python interpreter that has PyTorch")
    parser.add_argument("--script", type=Path, metavar="FILE", help="also run this script under torchrun on all GPUs")
    chosen = parser.parse_args(argv)
    if not chosen.out.is_dir():
        parser.error(f"--out {chosen.out} is not a directory")
    if chosen.script and not chosen.script.is_file():
        parser.error(f"--script {chosen.script} is not a file")
    if chosen.python and not shutil.which(chosen.python):
        parser.error(f"--python {chosen.python} is not a program")
    return chosen


class Check:
    """One run in the temporary directory ``work``."""

    def __init__(self, kit: Kit, work: Path, options: argparse.Namespace) -> None:
        self._kit, self._work, self._options = kit, work, options
        self._started = time.monotonic()
        (work / "raw").mkdir()
        (work / "ansible.cfg").touch()
        self.parts: list[Part] = []
        self.facts = Facts("", "")
        self.machine = machine.Machine()
        self._library = ("", "")
        self._has_topology = False
        self._own = _clean_environment(work)
        # Only Ansible gets the packages of the kit: PyTorch and NVIDIA's programs get the machine's own.
        site = kit.unpack(work)
        sys.path[:0] = [str(site), str(kit.root)]
        importlib.invalidate_caches()
        self._ansible = {
            **self._own,
            "PYTHONPATH": str(site),
            "PATH": f"{kit.programs}:{self._own.get('PATH', '')}",
            "ANSIBLE_COLLECTIONS_PATH": str(kit.root),
            "ANSIBLE_CONFIG": str(work / "ansible.cfg"),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
            "ANSIBLE_LOCAL_TEMP": str(work / "ansible"),
            "ANSIBLE_REMOTE_TEMP": str(work / "ansible"),
            "LC_ALL": "C.UTF-8",
        }

    def run(self) -> None:
        """Run all parts. Raises CheckError if there is no GPU, no driver, or a GPU is lost."""
        with Nvml() as nvml:
            self._library = nvml.library()
            self._own = _with_libraries(self._own, self._library[0])
            self._ansible = _with_libraries(self._ansible, self._library[0])
            self.machine = machine.read(self._library[0])
            self.facts = nvml.read()
            for gpu in self.facts.gpus:
                memory = f"{gpu.get('memory_total_mib', '?')} MiB"
                _say(f"GPU {gpu['index']}: {gpu.get('name', 'unknown')}, {memory}{self.simulated}")
            _say(f"Driver {self.facts.driver_version}, CUDA {self.facts.cuda_version}")
            self._part("readers", lambda part: self._readers(part, nvml))
            box = containers.Containers(self._kit.programs, self._work, self._own)
            self._part("CDI specification", lambda part: self._specification(part, box))
            self._part("modules", lambda part: self._modules(part, nvml, box))
            self._part("isolation", lambda part: self._isolation(part, box, nvml))
            self._part("kernel", lambda part: self._kernel(part, nvml))
            self._part("training", lambda part: self._training(part, nvml))
            if self._options.script:
                self._part("script", lambda part: self._script(part, nvml))

    @property
    def simulated(self) -> str:
        return " (simulated)" if self.machine.simulated else ""

    def _part(self, name: str, work: Callable[[Part], None]) -> None:
        part = Part(name)
        self.parts.append(part)
        begun = time.monotonic()
        sys.stdout.write(f"{name} ... ")
        sys.stdout.flush()
        try:
            if begun - self._started > _LIMIT:
                raise NotRunError(f"the {_LIMIT} s for the whole check are over")
            work(part)
        except NotRunError as error:
            part.reason = str(error)
        except Exception as error:  # The other parts and the report are worth having all the same.
            part.reason = f"unexpected {type(error).__name__}: {error}. Report this with {ARCHIVE}"
            (self._work / "raw" / f"traceback-{name}.txt").write_text(traceback.format_exc())
        part.seconds = time.monotonic() - begun
        _say(f"{part.state} ({part.seconds:.1f} s)")

    def _readers(self, part: Part, nvml: Nvml) -> None:
        from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.facts import NvidiaSmi

        program = shutil.which("nvidia-smi", path=self._own.get("PATH"))
        if program is None:
            raise NotRunError("there is no nvidia-smi in PATH")
        environment = {**self._own, "LC_ALL": "C"}
        before = nvml.read()
        outputs = forms.capture(program, environment, NvidiaSmi)
        after = nvml.read()
        for name, output in outputs.items():
            (self._work / "raw" / f"nvidia-smi {name}.txt").write_text(output.text)
        self._keep("nvml.json", {"before": _jsonable(before), "after": _jsonable(after)})
        forms.compare(part, outputs, before, after)
        self._has_topology = outputs["topo -m"].status == 0

    def _specification(self, part: Part, box: containers.Containers) -> None:
        box.generate(self._library[0])
        shutil.copy(box.specification, self._work / "raw" / "cdi.yaml")
        box.compare_with_files(part, self.facts)

    def _modules(self, part: Part, nvml: Nvml, box: containers.Containers) -> None:
        specification: Path | None = box.specification
        if not box.specification.is_file() or not Path("/run/systemd/system").is_dir():
            part.unavailable.append("nvidia_cdi_spec (no systemd, or no CDI specification)")
            specification = None
        before = nvml.read()
        results = modules.run(sys.executable, self._ansible, self._work, before, specification)
        self._keep("modules.json", results)
        modules.compare(part, results, before, nvml.read(), self.machine, self._library, self._has_topology)

    def _isolation(self, part: Part, box: containers.Containers, nvml: Nvml) -> None:
        if not box.specification.is_file():
            raise NotRunError("there is no CDI specification")
        self._require_idle(nvml)
        box.check_isolation(part, self._kit.root / "rootfs.tar.gz", self.facts)

    def _kernel(self, part: Part, nvml: Nvml) -> None:
        self._require_idle(nvml)
        programs.kernel(part, self._kit.programs / "vectorAdd", self._own, self.facts, self._work / "raw")

    def _training(self, part: Part, nvml: Nvml) -> None:
        python, torch = self._torch(part, nvml)
        script = self._kit.root / "train_ddp.py"
        programs.training(part, python, torch, script, self._own, self._work / "raw")

    def _script(self, part: Part, nvml: Nvml) -> None:
        python, torch = self._torch(part, nvml)
        programs.own_script(part, python, torch, self._options.script.resolve(), self._own, self._work / "raw")

    def _torch(self, part: Part, nvml: Nvml) -> tuple[str, list[Any]]:
        python, torch = programs.torch_python(self._options.python, self._own)
        self._require_idle(nvml)
        part.figures["torch"] = torch[0]
        return python, torch

    def _require_idle(self, nvml: Nvml) -> None:
        busy = programs.in_use(nvml.read())
        if busy:
            raise NotRunError(busy)

    def _keep(self, name: str, value: Any) -> None:
        (self._work / "raw" / name).write_text(json.dumps(value, indent=1, default=str))

    def report(self, error: str = "") -> dict[str, Any]:
        return {
            "schema": 1,
            "version": self._kit.manifest["version"],
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
        """Write the report and the archive of raw outputs, without anything that identifies this machine."""
        raw = {file.name: file.read_text(errors="replace") for file in sorted((self._work / "raw").iterdir())}
        raw[REPORT] = json.dumps(self.report(), indent=1, default=_plain) + "\n"
        uuids = scrub.identities(raw)
        names = {platform.node(): "host", str(self._work): "/tmp/gpu-check", str(self._kit.root): "/kit"}
        names |= dict.fromkeys(self.facts.serials, "0")
        names |= {name: "process" for one in self.facts.processes.values() for _pid, name in one if name}
        clean = {name: scrub.scrub(text, uuids, names) for name, text in raw.items()}
        _replace(directory / REPORT, clean[REPORT].encode())
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, text in clean.items():
                content = text.encode()
                entry = tarfile.TarInfo(f"gpu-check/{name}")
                entry.size, entry.mtime = len(content), int(time.time())
                archive.addfile(entry, io.BytesIO(content))
        _replace(directory / ARCHIVE, packed.getvalue())


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    root = Path(__file__).resolve().parent.parent
    try:
        kit = Kit(root)
        _require_writable(options.out)
        require_space(Path(tempfile.gettempdir()))
        with tempfile.TemporaryDirectory(prefix="gpu-check-") as directory:
            check = Check(kit, Path(directory), options)
            check.run()
            _say("")
            _say(result.table(check.parts))
            check.write(options.out)
    except CheckError as error:
        sys.stderr.write(f"gpu-check: {error}\n")
        return error.status
    except OSError as error:
        sys.stderr.write(f"gpu-check: {error}\n")
        return result.STATUS_NOT_RUN
    _say("")
    status = result.status(check.parts)
    words = ("All parts ran and agree.", "Something differs, see above.", "", "A part could not run, see above.")
    _say(f"{words[status]} Report: {options.out / REPORT}; raw outputs: {options.out / ARCHIVE}{check.simulated}")
    return status


def _clean_environment(work: Path) -> dict[str, str]:
    """Return this process's environment without what would change which GPUs a program gets, or how a module runs."""
    dropped = ("CUDA_VISIBLE_", "CUDA_DEVICE_", "NVIDIA_", "ANSIBLE_", "TORCH_DDP_", "RANK", "WORLD_SIZE", "MASTER_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    path = kept.get("PATH", "")
    return {**kept, "PATH": f"{path}:/usr/local/nvidia/bin:/usr/sbin:/sbin", "HOME": str(work), "TMPDIR": str(work)}


def _with_libraries(environment: dict[str, str], library: str) -> dict[str, str]:
    """Return an environment in which programs find the driver's other libraries, wherever NVML was found."""
    if not library or library.startswith(("/usr/lib/", "/lib/", "/usr/lib64/", "/lib64/")):
        return environment
    known = environment.get("LD_LIBRARY_PATH", "")
    return {**environment, "LD_LIBRARY_PATH": f"{Path(library).parent}{':' if known else ''}{known}"}


def _jsonable(facts: Facts) -> dict[str, Any]:
    found = asdict(facts)
    found["topology"] = {f"{one},{other}": words for (one, other), words in facts.topology.items()}
    return found


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else str(value)


def _system() -> str:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return f"{release.get('PRETTY_NAME', 'Linux')}, kernel {platform.release()}"


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole, or not at all. Raises CheckError."""
    work = path.with_name(f".{path.name}.new")
    try:
        work.write_bytes(content)
        work.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            work.unlink(missing_ok=True)
        words = f"{path} can't be written: {error.strerror}. Use another directory (--out)."
        raise CheckError(words) from None


def _require_writable(directory: Path) -> None:
    """Raise CheckError if no file can be written in a directory, before 3 minutes are spent."""
    probe = directory / f".{REPORT}.probe"
    _replace(probe, b"\n")
    probe.unlink()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
