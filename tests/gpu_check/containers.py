"""Generate a CDI specification with NVIDIA's toolkit, and start containers with and without a GPU in runc."""

from __future__ import annotations

import json
import os
import re
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from gpu_check.cdi_names import devices, expected_devices
from gpu_check.environment import is_standard
from gpu_check.nvml import Facts
from gpu_check.process import run
from gpu_check.programs import UUID
from gpu_check.result import NotRunError, Part, in_mig_mode, last_line

_TIMEOUT = 30
# Print what a container sees, in the format that visible() reads.
_PROBE = (
    'for node in /dev/nvidia[0-9]*; do if [ -e "$node" ]; then echo "node $node"; fi; done; '
    "if command -v nvidia-smi >/dev/null; then nvidia-smi -L; fi; "
    "/cuda-samples/vectorAdd; echo vectorAdd ended with $?"
)
_CONFIGURATION = """
[nvidia-container-runtime]
mode = "cdi"
runtimes = ["{runc}"]
[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
spec-dirs = ["{specifications}"]
"""


class Containers:
    """Containers below ``work`` with the toolkit and runc from ``programs``, not the machine's own toolkit."""

    def __init__(
        self, programs: Path, work: Path, environment: Mapping[str, str], remaining: Callable[[], float]
    ) -> None:
        self._programs, self._work, self._remaining = programs, work, remaining
        self._state = work / "runc"
        self.specification = work / "cdi" / "nvidia.yaml"
        settings = work / "config" / "nvidia-container-runtime"
        settings.mkdir(parents=True)
        self.specification.parent.mkdir()
        values = {"runc": programs / "runc", "specifications": self.specification.parent}
        (settings / "config.toml").write_text(_CONFIGURATION.format(**values))
        self._environment = {**environment, "XDG_CONFIG_HOME": str(work / "config")}

    def generate(self, library: str) -> None:
        """Write the CDI specification. ``library`` is the path of the loaded NVML. Raises NotRunError."""
        command = ["nvidia-ctk", "cdi", "generate", "--mode=nvml", f"--output={self.specification}"]
        command.append(f"--nvidia-cdi-hook-path={self._programs / 'nvidia-cdi-hook'}")
        if library and not is_standard(library):
            # This mode supports the option, although its help names another one.
            command.append(f"--library-search-path={Path(library).parent}")
        status, text = self._run(command)
        (self._work / "raw" / "nvidia-ctk.txt").write_text(text)
        if status or not self.specification.is_file():
            # The log consists of key="value" pairs.
            words = re.findall(r'msg="((?:[^"\\]|\\.)*)"', text) or [last_line(text)]
            raise NotRunError(f"nvidia-ctk cdi generate ended with {status}: {words[-1][:300]}")

    def compare_with_files(self, part: Part, facts: Facts) -> None:
        """Compare the specification with the GPUs, device nodes and files of this machine."""
        import yaml

        where = "CDI specification"
        found: dict[str, Any] = yaml.safe_load(self.specification.read_text())
        names = devices(str(device["name"]) for device in found["devices"])
        part.compare(where, "devices", names, expected_devices(facts))
        edits = [one.get("containerEdits") or {} for one in (found, *found["devices"])]
        nodes = {node.get("hostPath") or node["path"] for edit in edits for node in edit.get("deviceNodes") or ()}
        files = {mount["hostPath"] for edit in edits for mount in edit.get("mounts") or ()}
        for node in sorted(nodes):
            part.compare(where, f"device node {node}", Path(node).is_char_device(), True)
        for file in sorted(files):
            part.compare(where, f"file {file}", Path(file).exists(), True)
        listed = any(f".so.{facts.driver_version}" in file for file in files)
        part.compare(where, f"libraries of driver {facts.driver_version}", listed, True)

    def check_isolation(self, part: Part, image: Path, facts: Facts, simulated: bool) -> None:
        """Start one container without a GPU and one with each GPU. Raises NotRunError if runc can't start any."""
        rootfs = self._work / "rootfs"
        with tarfile.open(image) as archive:
            # Extraction filters exist since Python 3.11.4, and later versions warn without one. The kit's archive is
            # trusted.
            if hasattr(tarfile, "tar_filter"):
                archive.extraction_filter = tarfile.tar_filter
            archive.extractall(rootfs)
        self._container("start", rootfs, ["/bin/true"], {})
        probe = ["/bin/sh", "-c", _PROBE]
        for name, variables in (("no request", {}), ("void", {"NVIDIA_VISIBLE_DEVICES": "void"})):
            output = self._container(name.replace(" ", "-"), rootfs, probe, variables)
            part.compare(f"container without a GPU ({name})", "GPUs", visible(output), ([], []))
        for gpu in facts.gpus:
            index, where = gpu["index"], f"container with GPU {gpu['index']}"
            if in_mig_mode(gpu):
                part.unavailable.append(f"{where} (it is in MIG mode)")
                continue
            variables = {"NVIDIA_VISIBLE_DEVICES": str(index), "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
            output = self._container(f"gpu{index}", rootfs, probe, variables)
            expected = ([f"/dev/nvidia{gpu['minor_number']}"], [gpu["uuid"].removeprefix("GPU-")])
            part.compare(where, "GPUs", visible(output), expected)
            if simulated:
                part.unavailable.append(f"{where}: a kernel (the GPU is simulated)")
            else:
                # Without libcuda in the container, the program would compute on the CPU.
                computed = "vectorAdd ended with 0" in output and "[simulated]" not in output
                part.check(where, "vectorAdd", computed, last_line(output.partition("vectorAdd ended")[0]), "Done")

    def _container(self, name: str, rootfs: Path, command: list[str], variables: Mapping[str, str]) -> str:
        """Run a command in a container and return its output. ``variables`` request GPUs."""
        bundle = self._work / "bundles" / name
        bundle.mkdir(parents=True)
        self._check(["runc", "spec", "--bundle", str(bundle)])
        file = bundle / "config.json"
        settings = json.loads(file.read_text())
        settings["root"] = {"path": str(rootfs), "readonly": False}
        settings["process"].update(terminal=False, args=command, rlimits=[])
        settings["process"]["env"] = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
        settings["process"]["env"] += [f"{key}={value}" for key, value in variables.items()]
        file.write_text(json.dumps(settings))
        container = f"gpu-check-{os.getpid()}-{name}"
        state = ["--root", str(self._state)]
        with (bundle / "output").open("w+b") as output:
            try:
                create = ["nvidia-container-runtime", *state, "create", "--bundle", str(bundle), container]
                self._check(create, output)
                self._check(["runc", *state, "start", container])
                self._wait(container)
            finally:
                run([str(self._programs / "runc"), *state, "delete", "--force", container], self._environment, 10)
                output.seek(0)
                text = output.read().decode(errors="replace")
                (self._work / "raw" / f"container-{name}.txt").write_text(text)
        return text

    def _wait(self, container: str) -> None:
        deadline = time.monotonic() + min(_TIMEOUT, self._remaining())
        while time.monotonic() < deadline:
            status, text = self._run(["runc", "--root", str(self._state), "state", container])
            if status or json.loads(text)["status"] == "stopped":
                return
            time.sleep(0.05)
        raise NotRunError(f"the container {container} did not end within {_TIMEOUT} s")

    def _check(self, command: list[str], output: IO[bytes] | None = None) -> None:
        status, text = self._run(command, output)
        if status:
            if output is not None:
                output.seek(0)
                text = output.read().decode(errors="replace")
            raise NotRunError(f"runc can't start a container here: {last_line(text)}")

    def _run(self, command: list[str], output: IO[bytes] | None = None) -> tuple[int, str]:
        """Run one of the kit's programs and return its exit status and output."""
        program = str(self._programs / command[0])
        done = run([program, *command[1:]], self._environment, min(_TIMEOUT, self._remaining()), output)
        return done.returncode, done.stdout or done.stderr


def visible(output: str) -> tuple[list[str], list[str]]:
    """Return the device nodes and the UUIDs that a container sees."""
    nodes = [line.removeprefix("node ") for line in output.splitlines() if line.startswith("node ")]
    return sorted(nodes), sorted(set(UUID.findall(output)))
