# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that runs in the pod, with stand-ins for PyTorch and nvidia-smi; its figures come from no real GPU."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._benchmark.log import FACTS, MARK, read_log

SCRIPT = Path(__file__).resolve().parents[3] / "roles" / "gpu_benchmark" / "files" / "measure.py"
UUID = "GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11"
# The figures are predictable: by the GPU's clock, each operation takes one millisecond, and each batch half a
# millisecond more.
TORCH = """
import os, signal, sys, time
__version__ = "2.9.1"
uint8, float32, bfloat16 = "uint8", "float32", "bfloat16"
said = lambda *words: sys.stderr.write(" ".join(map(str, words)) + "\\n")
works = 0
time.sleep(float(os.environ.get("FAKE_IMPORT", 0)))


def worked():
    global works
    works += 1
    if os.environ.get("FAKE_HANGS") and works > 500:
        signal.alarm(1)
        time.sleep(60)


class Tensor:
    def __init__(self, kind=""):
        self.kind = kind

    def copy_(self, source, non_blocking):
        worked()
        return self

    def to(self, kind):
        return Tensor(kind)


def ones(size, dtype, device, pin_memory=False):
    said("source", size, device, "pinned" if pin_memory else "pageable")
    return Tensor()


def empty(size, dtype, device):
    return Tensor()


def randn(rows, columns, device):
    said("matrix", rows, device)
    return Tensor()


def matmul(one, two):
    if one.kind == os.environ.get("FAKE_UNKNOWN"):
        raise RuntimeError("not implemented for this GPU")
    said("tf32", os.environ["NVIDIA_TF32_OVERRIDE"])
    worked()


class version:
    cuda = "12.8" if os.environ.get("FAKE_MEMORY") else None


class cuda:
    def init():
        if os.environ.get("FAKE_DRIVER") == "old":
            raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040).")

    mem_get_info = staticmethod(lambda: (int(os.environ["FAKE_MEMORY"]), 0))

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.works = works

        def synchronize(self):
            time.sleep(0.001)

        def elapsed_time(self, other):
            return other.works - self.works + 0.5
"""
# A driver that only has the old field names, and no fields for row remapping.
NVIDIA_SMI = f"""#!{sys.executable}
import sys
known = {{"uuid": "{UUID}", "pci.bus_id": "00000000:FE:1E.7", "memory.used": "4", "pcie.link.gen.current": "3",
    "pcie.link.gen.max": "4", "pcie.link.width.current": "8", "pcie.link.width.max": "16",
    "clocks_throttle_reasons.active": "0x0000000000000044", "ecc.errors.uncorrected.volatile.total": "[N/A]",
    "temperature.gpu": "71", "clocks.sm": "1410", "power.draw": "69.50"}}
fields = sys.argv[1].split("=")[1].split(",")
unknown = [field for field in fields if field not in known]
if unknown:
    sys.exit(f'Field "{{unknown[0]}}" is not a valid field to query.')
print(", ".join(known[field] for field in fields))
"""


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "nvidia-smi"
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    return tmp_path


def started(pod: Path, code: str, environment: dict[str, str], stderr: int) -> subprocess.Popen[str]:
    """Start the script with other limits; PyTorch's stand-in logs its calls to standard error."""
    own = {"PATH": f"{pod / 'bin'}:/usr/bin:/bin", "PYTHONPATH": f"{pod}:{SCRIPT.parent}", **environment}
    command = [sys.executable, "-u", "-c", f"import measure; {code}"]
    whole = {**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(command, env=whole, text=True, stdout=subprocess.PIPE, stderr=stderr)


def measured(pod: Path, **environment: str) -> tuple[list[dict[str, Any]], str]:
    """Run the measurement; return the lines that it printed, and the log of PyTorch's calls."""
    process = started(pod, "measure.SECONDS = 1; measure.measure()", environment, subprocess.PIPE)
    out, asked = process.communicate(timeout=60)
    return [json.loads(line.removeprefix(MARK)) for line in out.splitlines()], asked


def reported(pod: Path, code: str = "", **environment: str) -> str:
    """Return the line that the pod prints; the pod must keep running, so that it keeps its GPU."""
    process = started(pod, f"{code}; measure.main()" if code else "measure.main()", environment, subprocess.DEVNULL)
    assert process.stdout
    line = process.stdout.readline()
    assert process.poll() is None
    process.kill()
    process.communicate(timeout=60)
    return line


def test_gpu_is_measured_by_its_own_clock(pod: Path) -> None:
    lines, asked = measured(pod, FAKE_MEMORY=str(80 * 2**30))
    assert [len(line["figures"]) for line in lines] == [1, 2, 3, 4]
    # The extra half millisecond makes operations 2.5 % slower in a batch of 20, and 50 % if measured alone.
    assert {name: value * 1.025 for name, value in lines[-1]["figures"].items()} == pytest.approx(
        {
            # Each byte is read and written.
            "memory_bytes_per_s": 2 * 2**30 * 1000,
            "host_to_device_bytes_per_s": 2**28 * 1000,
            "fp32_flop_per_s": 2 * 8192**3 * 1000,
            "bf16_flop_per_s": 2 * 8192**3 * 1000,
        },
        rel=0.02,
    )
    assert (lines[-1]["device"], lines[-1]["torch"], lines[-1]["notes"]) == ("cuda", "2.9.1", [])
    assert f"source {2**30} cuda pageable" in asked and f"source {2**28} cpu pinned" in asked
    assert "tf32 0" in asked and "tf32 1" not in asked


def test_throttling_link_and_temperature_are_read_under_load(pod: Path) -> None:
    lines, _asked = measured(pod, FAKE_MEMORY=str(80 * 2**30))
    facts = lines[-1]["facts"]
    assert set(facts) <= set(FACTS)
    assert 0 <= facts.pop("torch_import_s") < 30
    assert facts == {
        "pcie_generation": 3,
        "pcie_generation_max": 4,
        "pcie_width": 8,
        "pcie_width_max": 16,
        "throttle_reasons": 0x44,
        "temperature_c": 71,
        "sm_clock_mhz": 1410,
        "power_w": 69.5,
    }


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return importlib.import_module("measure")


def test_clock_and_power_are_typical_values_under_load(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample during a boost, and one taken between two measurements, are ignored."""
    busy = threading.Event()
    facts: dict[str, float] = {}
    # The first query only tests whether the driver has the fields.
    answers = [("0", "0", "0"), ("50", "1980", "300"), ("52", "1410", "70"), ("51", "210", "10"), ("51", "1400", "71")]

    def ask(_fields: str) -> list[tuple[str, ...]]:
        sample = answers.pop(0)
        (busy.clear if sample[1] == "210" else busy.set)()
        return [sample]

    monkeypatch.setattr(script, "FIELDS", script.FIELDS[-1:])
    monkeypatch.setattr(script, "ask", ask)
    monkeypatch.setattr(script.time, "sleep", lambda _seconds: busy.set())
    with pytest.raises(IndexError):
        script.sample(facts, busy)
    assert facts == {"temperature_c": 52, "sm_clock_mhz": 1410, "power_w": 71}


@pytest.mark.parametrize("cell", ["nan", "inf", "-inf", "[N/A]", "", "0x" + "f" * 400], ids=str)
def test_cell_without_a_finite_number_is_ignored(script: Any, cell: str) -> None:
    assert script.number(cell) is None


def test_output_of_nvidia_smi_with_invalid_utf8_is_read(pod: Path) -> None:
    (pod / "bin" / "nvidia-smi").write_text("#!/bin/sh\nprintf 'GPU-1, \\377, 0\\n'\n")
    found = read_log(reported(pod))
    assert found and (found.uuid, found.gpus) == ("GPU-1", 1)


def test_sizes_are_limited_by_free_memory(pod: Path) -> None:
    _lines, asked = measured(pod, FAKE_MEMORY=str(2**30))
    assert f"source {2**28} cuda" in asked
    assert "matrix 4096 cuda" in asked


def test_unsupported_figure_is_a_note(pod: Path) -> None:
    lines, _asked = measured(pod, FAKE_MEMORY=str(80 * 2**30), FAKE_UNKNOWN="bfloat16")
    assert lines[-1]["notes"] == ["bf16_flop_per_s: not implemented for this GPU"]
    assert len(lines[-1]["figures"]) == 3


def test_cpu_is_measured_and_labelled_without_cuda(pod: Path) -> None:
    found = read_log(reported(pod))
    assert found and (found.uuid, found.gpus, found.device, len(found.figures)) == (UUID, 1, "cpu", 4)
    assert found.facts["memory_used_before_mib"] == 4


def test_gpu_that_cuda_cannot_use_is_not_measured_on_the_cpu(pod: Path) -> None:
    found = read_log(reported(pod, FAKE_MEMORY=str(2**30), FAKE_DRIVER="old"))
    assert found and (found.device, found.figures, found.notes) == (
        "",
        {},
        ("it ended with status 1: RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",),
    )


def test_measurement_is_stopped_at_the_time_limit(pod: Path) -> None:
    found = read_log(reported(pod, "measure.LIMIT = 1", FAKE_MEMORY=str(2**30), FAKE_HANGS="1"))
    assert found and (found.uuid, found.device, found.notes) == (UUID, "", ("it was stopped after 1 s",))


def test_time_limit_begins_after_the_import_of_pytorch(pod: Path) -> None:
    code = "measure.LIMIT, measure.SECONDS = 3, 0.1; measure.measure()"
    process = started(pod, code, {"FAKE_MEMORY": str(2**30), "FAKE_IMPORT": "4"}, subprocess.DEVNULL)
    out, _asked = process.communicate(timeout=60)
    assert (process.returncode, len(out.splitlines())) == (0, 4)
    assert json.loads(out.splitlines()[-1].removeprefix(MARK))["facts"]["torch_import_s"] >= 4


def test_image_without_pytorch_is_reported(pod: Path) -> None:
    (pod / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    found = read_log(reported(pod))
    assert found and (found.device, found.notes) == (
        "",
        ("it ended with status 1: ModuleNotFoundError: No module named 'torch'",),
    )


def test_no_gpu_is_reported_without_nvidia_smi(pod: Path) -> None:
    (pod / "bin" / "nvidia-smi").unlink()
    found = read_log(reported(pod))
    assert found and (found.uuid, found.gpus) == ("", 0)


def test_script_is_at_most_150_lines_long() -> None:
    assert len(SCRIPT.read_text().splitlines()) <= 150
