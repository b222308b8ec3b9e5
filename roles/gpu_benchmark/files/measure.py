# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures a GPU in a child process, prints the figures as one marked line of JSON, and then keeps the idle GPU.

nvidia-smi is read while the kernels run, because an idle GPU slows down its PCIe link and its clocks. Without CUDA, the
CPU is measured, with small sizes. Run it with ``python -u``, Python 3.8 and PyTorch 1.13 or newer.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

MARK = "GPU_BENCHMARK "
# The child is stopped after LIMIT seconds, and the figures that it has by then count. Each figure takes SECONDS.
LIMIT, SECONDS = 60, 6
# Names of facts, and the fields of nvidia-smi, former names first. Not every driver knows every field.
FIELDS = (
    ("pcie_generation pcie_generation_max", "pcie.link.gen.current,pcie.link.gen.max"),
    ("pcie_generation pcie_generation_max", "pcie.link.gen.gpucurrent,pcie.link.gen.max"),
    ("pcie_width pcie_width_max", "pcie.link.width.current,pcie.link.width.max"),
    ("throttle_reasons", "clocks_throttle_reasons.active"),
    ("throttle_reasons", "clocks_event_reasons.active"),
    ("ecc_uncorrected", "ecc.errors.uncorrected.volatile.total"),
    ("remap_pending remap_failure", "remapped_rows.pending,remapped_rows.failure"),
    ("temperature_c sm_clock_mhz power_w", "temperature.gpu,clocks.sm,power.draw"),
)


def ask(fields: str) -> list[list[str]]:
    """Return a row of cells for each GPU, nothing if nvidia-smi fails."""
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=15, check=True).stdout
        rows = [[cell.strip() for cell in line.split(",")] for line in printed.splitlines() if line.strip()]
        return [row for row in rows if len(row) == fields.count(",") + 1]
    return []


def number(cell: str) -> float | None:
    """Read 12.5, 0x0000000000000004, Yes or No; None for anything else, such as [N/A]."""
    with contextlib.suppress(ValueError):
        return {"Yes": 1, "No": 0}[cell] if cell in ("Yes", "No") else int(cell, 16) if "0x" in cell else float(cell)
    return None


def sample(facts: dict[str, float]) -> None:
    """Read nvidia-smi as long as the process lives: the reasons of all samples, of other facts the highest value."""
    known = dict(each for each in FIELDS if ask(each[1]))
    while known:
        for row in ask(",".join(known.values()))[:1]:
            for name, read in zip(" ".join(known).split(), map(number, row)):
                if read is not None:
                    before = facts.get(name, read)
                    facts[name] = int(before) | int(read) if name == "throttle_reasons" else max(before, read)
        time.sleep(0.5)


def move_next_to(bus: str) -> None:
    """Use the CPUs and the memory next to the GPU, because a copy from another socket is slower."""
    with contextlib.suppress(OSError, ValueError):
        listed = Path("/sys/bus/pci/devices", bus[-12:].lower(), "local_cpulist").read_text().strip()
        spans = [part.split("-") for part in listed.split(",")]
        os.sched_setaffinity(0, {cpu for span in spans for cpu in range(int(span[0]), int(span[-1]) + 1)})


def measure() -> None:
    """Print after each figure all that there are so far."""
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"  # NVIDIA's libraries read it: no setting of the image turns TF32 on.
    import torch

    place = "cuda" if torch.cuda.is_available() else "cpu"
    cuda = place == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = False
    found = {"device": place, "torch": torch.__version__, "figures": {}, "notes": [], "facts": {}}
    threading.Thread(target=sample, args=(found["facts"],), daemon=True).start()

    def seconds(work) -> float:
        """Return how long it takes, on a GPU by the GPU's own clock."""
        if not cuda:
            start = time.perf_counter()
            work()
            return time.perf_counter() - start
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        work()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / 1000

    def copying(from_host: bool):
        # Within the GPU's memory, each byte is read and written.
        size = min(2**28 if from_host else 2**30, torch.cuda.mem_get_info()[0] // 4) if cuda else 2**24
        home = {"device": "cpu", "pin_memory": cuda} if from_host else {"device": place}
        source, target = torch.ones(size, dtype=torch.uint8, **home), torch.empty(size, dtype=torch.uint8, device=place)
        return lambda: target.copy_(source, non_blocking=True), size if from_host else 2 * size

    def multiplying(kind):
        free = torch.cuda.mem_get_info()[0] if cuda else 0
        side = max(each for each in (256, 1024, 2048, 4096, 8192) if 3 * 4 * each**2 <= free // 2 or each == 256)
        # Random numbers, because a GPU needs less power for zeros.
        one, two = (torch.randn(side, side, device=place).to(kind) for _each in range(2))
        return lambda: torch.matmul(one, two), 2 * side**3

    for name, prepare, what in (
        ("memory_bytes_per_s", copying, False),
        ("host_to_device_bytes_per_s", copying, True),
        ("fp32_flop_per_s", multiplying, torch.float32),
        ("bf16_flop_per_s", multiplying, torch.bfloat16),
    ):
        try:
            work, amount = prepare(what)
            seconds(work)
            took, end = [], time.monotonic() + (SECONDS if cuda else 0.5)
            while not took or time.monotonic() < end:
                took.append(seconds(work))
            found["figures"][name] = amount / statistics.median(took[len(took) // 3 :])  # at first, clocks rise
        except RuntimeError as error:
            found["notes"].append(f"{name}: {error}"[:300])
        work = None
        sys.stdout.write(MARK + json.dumps({**found, "facts": dict(found["facts"])}) + "\n")


def main() -> None:
    rows = ask("uuid,memory.used,pci.bus_id")
    uuid, used, bus = rows[0] if len(rows) == 1 else ("", "", "")
    move_next_to(bus)
    found = {"uuid": uuid, "gpus": len(rows), "notes": [], "facts": {}}
    try:
        done = subprocess.run([sys.executable, "-u", __file__, "--measure"], stdout=subprocess.PIPE, timeout=LIMIT)
        printed, failure = done.stdout, [f"it ended with status {done.returncode}"] if done.returncode else []
    except subprocess.TimeoutExpired as late:
        printed, failure = late.stdout or b"", [f"it was stopped after {LIMIT} s"]
    lines = [line for line in printed.decode("utf-8", "replace").splitlines() if line.startswith(MARK)]
    found.update(json.loads(lines[-1][len(MARK) :]) if lines else {})
    found["notes"], found["facts"]["memory_used_before_mib"] = found["notes"] + failure, number(used)
    sys.stdout.write(MARK + json.dumps(found) + "\n")
    time.sleep(86400)


if __name__ == "__main__":
    measure() if sys.argv[1:] == ["--measure"] else main()
