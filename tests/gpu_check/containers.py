"""Generates a CDI specification with NVIDIA's toolkit and starts containers with runc: one with a GPU, one without."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpu_check.nvml import Facts
from gpu_check.result import NotRunError, Part

_TIMEOUT = 30
_LOOK = (
    'for node in /dev/nvidia[0-9]*; do if [ -e "$node" ]; then echo "node $node"; fi; done; '
    "if command -v nvidia-smi >/dev/null; then nvidia-smi -L; fi; "
    "/cuda-samples/vectorAdd; echo vectorAdd ended with $?"
)
_UUID = re.compile(r"^GPU \d+: .*\(UUID: (?:GPU-)?([0-9a-f-]+)\)", re.MULTILINE)
_CONFIGURATION = """
[nvidia-container-runtime]
mode = "cdi"
runtimes = ["{runc}"]
[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
spec-dirs = ["{specifications}"]
"""


class Containers:
    """Containers below ``work``, with the programs in ``programs``. The machine's own toolkit is not used."""

    def __init__(self, programs: Path, work: Path, environment: Mapping[str, str]) -> None:
        self._programs, self._work = programs, work
        self._state = work / "runc"
        self.specification = work / "cdi" / "nvidia.yaml"
        settings = work / "config" / "nvidia-container-runtime"
        settings.mkdir(parents=True)
        self.specification.parent.mkdir()
        values = {"runc": programs / "runc", "specifications": self.specification.parent}
        (settings / "config.toml").write_text(_CONFIGURATION.format(**values))
        path = f"{programs}:{environment.get('PATH', '')}"
        self._environment = {**environment, "PATH": path, "XDG_CONFIG_HOME": str(work / "config")}

    def generate(self, library: str) -> None:
        """Write the CDI specification. ``library`` is the path of the loaded NVML. Raises NotRunError."""
        command = [self._programs / "nvidia-ctk", "cdi", "generate", "--mode=nvml", f"--output={self.specification}"]
        command.append(f"--nvidia-cdi-hook-path={self._programs / 'nvidia-cdi-hook'}")
        if library and not library.startswith(("/usr/lib/x86_64-linux-gnu/", "/usr/lib64/")):
            command.append(f"--library-search-path={Path(library).parent}")
        done = self._run([str(word) for word in command])
        (self._work / "raw" / "nvidia-ctk.txt").write_text(done.stdout + done.stderr)
        if done.returncode or not self.specification.is_file():
            raise NotRunError(f"nvidia-ctk cdi generate ended with {done.returncode}: {_last(done.stderr)}")

    def compare_with_files(self, part: Part, facts: Facts) -> None:
        """Compare the specification with the GPUs, the device nodes and the files of this machine."""
        import yaml

        where = "CDI specification"
        found: dict[str, Any] = yaml.safe_load(self.specification.read_text())
        part.compare(where, "devices", devices(str(device["name"]) for device in found["devices"]), wanted(facts))
        edits = [one.get("containerEdits") or {} for one in (found, *found["devices"])]
        nodes = {node.get("hostPath") or node["path"] for edit in edits for node in edit.get("deviceNodes") or ()}
        files = {mount["hostPath"] for edit in edits for mount in edit.get("mounts") or ()}
        for node in sorted(nodes):
            part.compare(where, f"device node {node}", Path(node).is_char_device(), True)
        for file in sorted(files):
            part.compare(where, f"file {file}", Path(file).exists(), True)
        listed = any(f".so.{facts.driver_version}" in file for file in files)
        part.compare(where, f"libraries of driver {facts.driver_version}", listed, True)

    def check_isolation(self, part: Part, image: Path, facts: Facts) -> None:
        """Start a container without a GPU, then one with each GPU. Raises NotRunError if runc can't start any."""
        rootfs = self._work / "rootfs"
        with tarfile.open(image) as archive:
            # Python 3.11 has filters from 3.11.4 on, and later versions ask for one. The archive is the kit's own.
            if hasattr(tarfile, "tar_filter"):
                archive.extraction_filter = tarfile.tar_filter
            archive.extractall(rootfs)
        self._container("start", rootfs, ["/bin/true"], "")
        output = self._container("none", rootfs, ["/bin/sh", "-c", _LOOK], "")
        part.compare("container without a GPU", "GPUs", _seen(output), ([], []))
        for gpu in facts.gpus:
            if gpu.get("mig.current") == "Enabled":
                part.unavailable.append(f"container with GPU {gpu['index']} (it is in MIG mode)")
                continue
            where = f"container with GPU {gpu['index']}"
            output = self._container(f"gpu{gpu['index']}", rootfs, ["/bin/sh", "-c", _LOOK], str(gpu["index"]))
            node, uuid = f"/dev/nvidia{gpu['minor_number']}", gpu["uuid"].removeprefix("GPU-")
            part.compare(where, "GPUs", _seen(output), ([node], [uuid]))
            simulated = "[simulated]" in output
            passed = "Test PASSED" in output and "vectorAdd ended with 0" in output
            if simulated:
                part.unavailable.append(f"{where}: a kernel (no libcuda.so.1: the GPU is simulated)")
            else:
                part.compare(where, "vectorAdd", passed or _last(output), True)

    def _container(self, name: str, rootfs: Path, command: list[str], gpu: str) -> str:
        """Run a command in a container and return what it printed. ``gpu`` is the index of its GPU, or empty."""
        bundle = self._work / "bundles" / name
        bundle.mkdir(parents=True)
        self._check(["runc", "spec", "--bundle", str(bundle)])
        file = bundle / "config.json"
        settings = json.loads(file.read_text())
        settings["root"] = {"path": str(rootfs), "readonly": False}
        settings["process"].update(terminal=False, args=command)
        settings["process"]["env"] = [
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            f"NVIDIA_VISIBLE_DEVICES={gpu or 'void'}",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ]
        settings["process"]["rlimits"] = []
        file.write_text(json.dumps(settings))
        container = f"gpu-check-{os.getpid()}-{name}"
        runtime = ["nvidia-container-runtime" if gpu else "runc", "--root", str(self._state)]
        with (bundle / "output").open("w+", errors="replace") as output:
            try:
                self._check([*runtime, "create", "--bundle", str(bundle), container], output)
                self._check(["runc", "--root", str(self._state), "start", container])
                self._wait(container)
            finally:
                self._run(["runc", "--root", str(self._state), "delete", "--force", container])
                output.seek(0)
                text = output.read()
                (self._work / "raw" / f"container-{name}.txt").write_text(text)
        return text

    def _wait(self, container: str) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline:
            done = self._run(["runc", "--root", str(self._state), "state", container])
            if done.returncode or json.loads(done.stdout)["status"] == "stopped":
                return
            time.sleep(0.05)
        raise NotRunError(f"the container {container} did not end within {_TIMEOUT} s")

    def _check(self, command: list[str], output: Any = None) -> None:
        done = self._run(command, output)
        if done.returncode:
            said = done.stderr
            if output is not None:
                output.seek(0)
                said = output.read()
            raise NotRunError(f"runc can't start a container here: {_last(said)}")

    def _run(self, command: list[str], output: Any = None) -> subprocess.CompletedProcess[str]:
        program = self._programs / command[0]
        argv = [str(program) if program.is_file() else command[0], *command[1:]]
        try:
            return subprocess.run(
                argv,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if output is None else output,
                stderr=subprocess.PIPE if output is None else output,
                text=True,
                timeout=_TIMEOUT,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotRunError(f"{Path(argv[0]).name} can't be run: {error}") from None


def devices(names: Iterable[str]) -> list[str]:
    """Return the names of GPUs (0) and MIG devices (0:1) among the names of CDI devices."""
    return sorted(name for name in names if re.fullmatch(r"\d+(:\d+)?", name))


def wanted(facts: Facts) -> list[str]:
    """Return the names that a specification must have: GPUs, and instead of a GPU in MIG mode its MIG devices."""
    names = []
    for index, gpu in enumerate(facts.gpus):
        parts = [f"{index}:{place}" for place in range(len(gpu["mig.devices"]))]
        names += parts if gpu.get("mig.current") == "Enabled" else [str(index)]
    return sorted(names)


def _seen(output: str) -> tuple[list[str], list[str]]:
    """Return the device nodes and the UUIDs that a container sees."""
    nodes = [line.removeprefix("node ") for line in output.splitlines() if line.startswith("node ")]
    return sorted(nodes), sorted(set(_UUID.findall(output)))


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "it printed nothing")[:500]
