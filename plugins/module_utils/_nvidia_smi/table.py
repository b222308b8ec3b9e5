# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse nvidia-smi's table: two lines per GPU before MIG was introduced, three since, in any width."""

from __future__ import annotations

import re
from typing import Any

from .faults import faults
from .values import (
    MOST_GPUS,
    Reading,
    bus_id,
    empty_gpu,
    empty_mig,
    is_failure,
    mib,
    mode,
    number,
    short_lines,
    version,
    whole,
    word,
)

TABLE_START = "| NVIDIA-SMI"

_DRIVER = re.compile(r"\b(?:Driver|KMD) Version:\s*(\S+)", re.IGNORECASE)
_CUDA = re.compile(r"\bCUDA(?: UMD)? Version:\s*(\S+)", re.IGNORECASE)
_TITLE = re.compile(r"\| (Processes|MIG devices):")
_DATE = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d")
_NAME = re.compile(r"(\d{1,4}|ERR!)\s+(\S.*\S|\S)\s+(On|Off|N/A|ERR!|WDDM|TCC|MCDM)")
_BUS = re.compile(r"((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d|ERR!|N/A)\s+\S+")
_MIG = re.compile(r"(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})")
_MEMORY = re.compile(r"(\d+[KMG]i?B) */ *(\d+[KMG]i?B)")
_POWER = re.compile(r"(?:([\d.]+)W|\S+) */ *(?:([\d.]+)W|\S+)$")
_TEMPERATURE = re.compile(r"(?:^|\s)(\d{1,3})C(?:\s|$)")
_PROCESS = re.compile(r"(\d{1,4})\s+(?:(\d{1,4}|N/A)\s+(\d{1,4}|N/A)\s+)?(\d{1,10})\s+([CGM](?:\+[CGM])*)\s+(\S.*)")
_COMPUTE = {"E. Process": "Exclusive_Process", "E. Thread": "Exclusive_Thread"}


class _Table:
    """State of the parser: the current GPU, and the GPUs by number.

    ``below``: the double line above a box's rows was read; ``damaged``: a line was not a valid row.
    """

    def __init__(self) -> None:
        self.reading = Reading("table")
        self.numbered: dict[str, dict[str, Any]] = {}
        self.gpu: dict[str, Any] | None = None
        self.lines = 0
        self.box = "GPUs"
        self.below = self.damaged = False

    def line(self, line: str) -> None:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        title = _TITLE.match(line)
        if title:
            self.box, self.below = title[1], False
        elif line.startswith("|="):
            self.below = True
        elif self.box == "GPUs" and (self.below or (cells and _NAME.fullmatch(cells[0]))):
            self.damaged = not (self.below and self._gpu(cells)) or self.damaged
        elif self.box == "MIG devices" and self.below:
            self.damaged = not self._mig(cells) or self.damaged
        elif len(cells) == 1:
            self._process(_PROCESS.fullmatch(cells[0]))

    def _gpu(self, cells: list[str]) -> bool:
        if len(cells) != 3:
            return False
        head, bus = _NAME.fullmatch(cells[0]), _BUS.match(cells[1])
        if head and bus:
            began_after_another = self.gpu is None or self.lines > 1
            self._begin(head, bus[1], cells[2])
            return began_after_another
        self.lines += 1
        if self.gpu is None or self.lines > 3:
            return False
        if self.lines == 2:
            return _second(self.gpu, cells)
        current = mode(cells[2])
        self.gpu["mig"].update(capable=current is not None, current=current)
        return current is not None or word(cells[2]) is None

    def _begin(self, head: re.Match[str], address: str, ecc: str) -> None:
        gpu = empty_gpu(
            index=whole(head[1]), name=word(head[2]), pci_bus_id=bus_id(address), persistence_mode=mode(head[3])
        )
        gpu["ecc"]["current"] = "Enabled" if ecc.isdigit() else mode(ecc)
        values = [("index", head[1]), ("name", head[2]), ("PCI address", address), ("persistence mode", head[3])]
        gpu["problems"] = faults([*values, ("ECC errors", ecc)])
        self.reading.gpus.append(gpu)
        self.numbered[head[1]] = self.gpu = gpu
        self.lines = 1

    def _mig(self, cells: list[str]) -> bool:
        match = _MIG.fullmatch(cells[0]) if len(cells) > 1 else None
        gpu = self.numbered.get(match[1]) if match else None
        if not match or gpu is None:
            # Each device has a second line; a box without devices contains a message.
            return not match and bool(cells) and (len(cells) == 1 or not cells[0])
        sizes = _MEMORY.search(cells[1])
        total = mib(sizes[2]) if sizes else None
        devices = gpu["mig"]["devices"]
        if not cells[1] and devices and devices[-1]["gi"] == int(match[2]):
            # One cell for all compute instances of a GPU instance, which share its memory.
            total = devices[-1]["memory_total_mib"]
        devices.append(empty_mig(gi=int(match[2]), ci=int(match[3]), index=int(match[4]), memory_total_mib=total))
        return total is not None

    def _process(self, match: re.Match[str] | None) -> None:
        if not match or match[1] not in self.numbered:
            return
        # Inside a container the name is omitted.
        name, _blank, memory = match[6].rpartition(" ")
        process = {
            "pid": int(match[4]),
            "type": match[5],
            "name": word(name),
            "used_memory_mib": mib(memory),
            "gi": whole(match[2]),
            "ci": whole(match[3]),
        }
        self.numbered[match[1]]["processes"].append(process)


def read_table(text: str) -> Reading:
    """Parse the table. Names may be shortened, and UUIDs are missing."""
    table = _Table()
    reading = table.reading
    first = last = ""
    for whole_line in short_lines(text):
        line = whole_line.strip()
        if TABLE_START in line:
            driver, cuda = _DRIVER.search(line), _CUDA.search(line)
            reading.driver_version = version(driver[1]) if driver else None
            reading.cuda_version = version(cuda[1]) if cuda else None
            reading.cuda_failed = bool(cuda and is_failure(cuda[1]))
            table.damaged = table.damaged or bool(cuda and cuda[1][0].isdigit() and not reading.cuda_version)
        elif line.startswith("|") and len(reading.gpus) <= MOST_GPUS:
            table.line(line)
        elif line and not line.startswith("+") and not _DATE.match(line):
            reading.messages.append(line)
        if line.startswith(("|", "+")):
            first, last = first or line, line
    # Only the complete box of processes shows that no GPU was cut off.
    ended = table.box == "Processes" and last == first and last.startswith("+")
    reading.complete = ended and table.lines > 1 and not table.damaged and reading.driver_version is not None
    return reading


def _second(gpu: dict[str, Any], cells: list[str]) -> bool:
    """Read the second line of a GPU; return False if its memory is damaged."""
    power, memory, temperature = _POWER.search(cells[0]), _MEMORY.search(cells[1]), _TEMPERATURE.search(cells[0])
    use, _gap, compute = cells[2].partition(" ")
    gpu.update(
        temperature_c=int(temperature[1]) if temperature else None,
        power_draw_w=number(power[1]) if power else None,
        power_limit_w=number(power[2]) if power else None,
        memory_used_mib=mib(memory[1]) if memory else None,
        memory_total_mib=mib(memory[2]) if memory else None,
        utilization_gpu_pct=whole(use),
        compute_mode=_COMPUTE.get(compute.strip(), word(compute)),
    )
    labels = ("fan speed", "temperature", "performance state", "power")
    gpu["problems"] += faults([*zip(labels, cells[0].split()), ("memory", cells[1]), ("utilization", use)])
    return memory is not None or not any(character.isdigit() for character in cells[1])
