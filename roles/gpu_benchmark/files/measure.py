# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures a GPU in a child process, prints the figures as one marked line of JSON, and then keeps the idle GPU.

nvidia-smi is read while the kernels run, because an idle GPU slows down its PCIe link and its clocks. A PyTorch without
CUDA measures the CPU, with small sizes. Run it with ``python -u``, Python 3.8 and PyTorch 1.13 or newer.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

MARK = "GPU_BENCHMARK "
FIGURES = ("memory_bytes_per_s", "host_to_device_bytes_per_s", "fp32_flop_per_s", "bf16_flop_per_s")
# The child is stopped LIMIT seconds after it imported PyTorch; its figures until then count. Each one takes SECONDS, in
# batches of at least BATCH seconds, because the start of a kernel takes time, too.
LIMIT, SECONDS, BATCH = 60, 6, 0.02
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
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, errors="replace", timeout=15, check=True)
        rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
        return [row for row in rows if len(row) == fields.count(",") + 1]
    return []


def number(cell: str) -> float | None:
    """Read 12.5, 0x0000000000000004, Yes or No; None for anything else, such as [N/A]."""
    with contextlib.suppress(ValueError, OverflowError):
        read = {"Yes": 1, "No": 0}[cell] if cell in ("Yes", "No") else int(cell, 16) if "0x" in cell else float(cell)
        return read if math.isfinite(read) else None
    return None


def sample(facts: dict[str, float], busy: threading.Event) -> None:
    """Read nvidia-smi while the GPU is busy: all reasons, median clock and power, the highest value of the others."""
    known, seen = dict(each for each in FIELDS if ask(each[1])), {}
    while known and busy.wait():
        rows = ask(",".join(known.values()))[:1]
        for name, read in zip(" ".join(known).split(), map(number, rows[0] if rows and busy.is_set() else [])):
            if read is not None and name == "throttle_reasons":
                facts[name] = int(facts.get(name, 0)) | int(read)
            elif read is not None:
                seen.setdefault(name, []).append(read)
                facts[name] = (statistics.median if name in ("sm_clock_mhz", "power_w") else max)(seen[name])
        time.sleep(0.5)


def measure() -> None:
    """Print after each figure all that there are so far."""
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"  # NVIDIA's libraries read it: no setting of the image turns TF32 on.
    began = time.monotonic()
    import torch

    signal.alarm(LIMIT)  # It ends the process, even one that waits for a GPU.
    facts, busy = {"torch_import_s": time.monotonic() - began}, threading.Event()
    cuda = torch.version.cuda is not None
    if cuda:
        torch.cuda.init()  # With a GPU that CUDA can't use, this fails and says why.
    place, free = ("cuda", torch.cuda.mem_get_info()[0]) if cuda else ("cpu", 2**24)
    found = {"device": place, "torch": torch.__version__, "figures": {}, "notes": []}
    threading.Thread(target=sample, args=(facts, busy), daemon=True).start()

    def seconds(work, times: int) -> float:
        """Return how long one of so many calls takes, on a GPU by the GPU's own clock."""
        first, last = (torch.cuda.Event(enable_timing=True) if cuda else None for _each in range(2))
        start = first.record() if cuda else time.perf_counter()
        for _each in range(times):
            work()
        if not cuda:
            return (time.perf_counter() - start) / times
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / 1000 / times

    def copying(from_host: bool):
        size = min(2**28 if from_host else 2**30, free // 4)
        home = {"device": "cpu", "pin_memory": cuda} if from_host else {"device": place}
        source, target = torch.ones(size, dtype=torch.uint8, **home), torch.empty(size, dtype=torch.uint8, device=place)
        return lambda: target.copy_(source, non_blocking=True), size if from_host else 2 * size  # read and written

    def multiplying(kind):
        side = max(each for each in (256, 1024, 2048, 4096, 8192) if 3 * 4 * each**2 <= free // 2 or each == 256)
        one, two = (torch.randn(side, side, device=place).to(kind) for _each in range(2))  # zeros need less power
        return lambda: torch.matmul(one, two), 2 * side**3

    works = ((copying, False), (copying, True), (multiplying, torch.float32), (multiplying, torch.bfloat16))
    for name, (prepare, what) in zip(FIGURES, works):
        try:
            work, amount = prepare(what)
            times = math.ceil(BATCH / max(min(seconds(work, 1) for _warm_up in range(3)), BATCH / 1000))
            took, end = [], time.monotonic() + (SECONDS if cuda else 0.5)
            busy.set()
            while not took or time.monotonic() < end:
                took.append(seconds(work, times))
            found["figures"][name] = amount / statistics.median(took[len(took) // 3 :])  # at first, clocks rise
        except RuntimeError as error:
            found["notes"].append(f"{name}: {error}"[:300])
        busy.clear()
        work = None
        sys.stdout.write(MARK + json.dumps({**found, "facts": dict(facts)}) + "\n")


def main() -> None:
    rows = ask("uuid,memory.used,pci.bus_id")
    uuid, used, bus = rows[0] if len(rows) == 1 else ("", "", "")
    # Use the CPUs and the memory next to the GPU, because a copy from another socket is slower.
    with contextlib.suppress(OSError, ValueError):
        listed = Path("/sys/bus/pci/devices", bus[-12:].lower(), "local_cpulist").read_text().strip()
        spans = [part.split("-") for part in listed.split(",")]
        os.sched_setaffinity(0, {cpu for span in spans for cpu in range(int(span[0]), int(span[-1]) + 1)})
    child = subprocess.run([sys.executable, "-u", __file__, "--measure"], capture_output=True, check=False)
    printed, errors = (output.decode("utf-8", "replace").splitlines() for output in (child.stdout, child.stderr))
    last = [line[len(MARK) :] for line in printed if line.startswith(MARK)][-1:] or ["{}"]
    found = {"uuid": uuid, "gpus": len(rows), "notes": [], "facts": {}, **json.loads(last[0])}
    found["facts"]["memory_used_before_mib"] = number(used)
    error = ": ".join([f"it ended with status {child.returncode}", *[line for line in errors if "Error" in line][-1:]])
    endings = {0: [], -signal.SIGALRM: [f"it was stopped after {LIMIT} s"]}
    found["notes"] += endings.get(child.returncode, [error])
    sys.stdout.write(MARK + json.dumps(found) + "\n")
    signal.pause()


if __name__ == "__main__":
    measure() if sys.argv[1:] == ["--measure"] else main()
