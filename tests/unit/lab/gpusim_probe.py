"""Support for tests of the simulated NVML: a scratch machine, and a probe that runs in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.gpusim import hardware, models

DRIVER = "580.178.04"
# Return codes by their names in nvml.h.
SUCCESS, UNINITIALIZED, INVALID, NOT_SUPPORTED = 0, 1, 2, 3
DRIVER_NOT_LOADED, TIMEOUT, GPU_IS_LOST, VERSION_MISMATCH, UNKNOWN = 9, 10, 15, 18, 999

PRELUDE = """
import ctypes, json, os, pathlib, sys, threading, time
nvml = ctypes.CDLL(sys.argv[1])
state = pathlib.Path(os.environ["GPUSIM_STATE"])
def device(index):
    handle = ctypes.c_void_p()
    return nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)), handle
def text(function, handle):
    buffer = ctypes.create_string_buffer(96)
    code = getattr(nvml, function)(handle, buffer, 96)
    return buffer.value.decode() if code == 0 else code
def number(function, *arguments):
    value = ctypes.c_uint(4711)
    code = getattr(nvml, function)(*arguments, ctypes.byref(value))
    return value.value if code == 0 else -code
"""


@dataclass
class Machine:
    """A scratch directory that looks to the library like a machine with a loaded driver."""

    root: Path
    library: Path
    gpus: list[dict[str, models.Value]]

    @property
    def state(self) -> Path:
        """The driver's state file."""
        return self.root / "state.json"

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point the library to the scratch machine."""
        return {
            "GPUSIM_STATE": str(self.state),
            "GPUSIM_DEV": str(self.root / "dev"),
            "GPUSIM_PROC_VERSION": str(self.root / "version"),
            "GPUSIM_MIG": str(self.root / "mig"),
        }

    def write(self, driver: str, faults: list[dict[str, Any]] | None = None) -> None:
        """Overwrite the state file in place, as the simulated module and the fault command do."""
        described = json.loads(hardware.render(self.gpus))
        with self.state.open("w") as file:
            json.dump({"driver": driver, "faults": faults or [], "silicon": described}, file)

    def run(self, script: str) -> Any:
        """Run Python code after PRELUDE in its own process; its last line prints JSON."""
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + script, str(self.library)],
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            timeout=60,
        )
        return json.loads(done.stdout)


def machine(root: Path, library: Path, model: models.Model, count: int, driver: str) -> Machine:
    """Create a machine with all its device nodes."""
    dev = root / "dev"
    (dev / "nvidia-caps").mkdir(parents=True)
    (dev / "nvidiactl").touch()
    (root / "mig").write_text("end\n")
    for index in range(count):
        (dev / f"nvidia{index}").touch()
    made = Machine(root, library, models.describe(model, count, "gpu1"))
    made.write(driver)
    return made
