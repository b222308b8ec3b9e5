# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse nvidia-smi's CSV with header: GPUs (``--query-gpu``) and processes (``--query-compute-apps``)."""

from __future__ import annotations

import re
from typing import Any

from .faults import faults, health, whole_gpu_problems
from .states import complaint
from .values import (
    MOST_GPUS,
    Reading,
    bus_id,
    either,
    empty_gpu,
    mib,
    mode,
    number,
    version,
    whole,
    word,
    yes,
)

_COLUMN = re.compile(r"[a-z][A-Za-z0-9_.]*(?: \[[A-Za-z%/]+\])?")
_KNOWN_COLUMNS = {"uuid", "gpu_uuid", "index", "name", "gpu_name", "pci.bus_id", "gpu_bus_id", "driver_version", "pid"}
# The rows of these queries are not a list of all GPUs, only of GPUs in use or with a retired page.
_OTHER_QUERIES = {"pid", "retired_pages.address", "retired_pages.cause"}
_FREE_TEXT = ("process_name", "name", "gpu_name")

_FAULTY = {
    "name": "name",
    "uuid": "uuid",
    "memory.total": "memory",
    "temperature.gpu": "temperature",
    "power.draw": "power",
    "utilization.gpu": "utilization",
}


def csv_header(text: str) -> int | None:
    """Return the number of the line with the CSV header, None if there is none."""
    for place, line in enumerate(text.split("\n", 200)[:200]):
        cells = [cell.strip() for cell in line.split(",")]
        if all(_COLUMN.fullmatch(cell) for cell in cells) and _KNOWN_COLUMNS & {c.split(" ")[0] for c in cells}:
            return place
    return None


def read_csv(text: str, header: int) -> Reading:
    """Parse CSV by the column names in its header; lines that do not fit are messages."""
    lines = text.split("\n")
    columns = [cell.strip().split(" ")[0] for cell in lines[header].split(",")]
    processes = "pid" in columns
    partial = bool(_OTHER_QUERIES & set(columns))
    reading = Reading("processes" if processes else "csv", complete=text.endswith("\n") and not partial)
    reading.messages = [line.strip() for line in lines[:header] if line.strip()]
    known: dict[Any, dict[str, Any]] = {}
    for line in lines[header + 1 :]:
        if len(reading.gpus) > MOST_GPUS:
            break
        row = _row(line, columns)
        if row is not None:
            _csv_process(reading, row, known) if processes else _csv_gpu(reading, row)
        elif line.strip():
            reading.messages.append(line.strip())
            # A line added by a wrapper has far fewer commas than a row or part of one.
            reading.complete = reading.complete and line.count(",") < len(columns) / 4
    return reading


def _row(line: str, columns: list[str]) -> dict[str, str] | None:
    cells = [cell.strip() for cell in line.split(",")]
    extra = len(cells) - len(columns)
    free = next((columns.index(column) for column in _FREE_TEXT if column in columns), None)
    if extra > 0 and free is not None:
        # Only a name may contain commas.
        start = len(line) - len(line.lstrip())
        for _cell in range(free):
            start = line.index(",", start) + 1
        end = len(line)
        for _cell in range(len(columns) - free - 1):
            end = line.rindex(",", 0, end)
        cells[free : free + extra + 1] = [line[start:end].strip()]
    if len(cells) != len(columns) or not any(cells):
        return None
    row = dict(zip(columns, cells))
    index, address = word(row.get("index")), word(row.get("pci.bus_id") or row.get("gpu_bus_id"))
    fits = (index is None or index.isdigit()) and (address is None or bus_id(address) is not None)
    return row if fits and not complaint(line[:1000]) else None


def _csv_gpu(reading: Reading, row: dict[str, str]) -> None:
    current = mode(row.get("mig.mode.current"))
    fabric = {key.split(".")[-1]: value for key, value in row.items() if key.startswith("fabric.")}
    failure = yes(row.get("remapped_rows.failure"))
    reading.driver_version = (
        reading.driver_version or version(row.get("kmd_version")) or version(row.get("driver_version"))
    )
    reading.cuda_version = reading.cuda_version or version(row.get("cuda_version"))
    reading.attached = reading.attached or whole(row.get("count"))
    gpu = empty_gpu(
        index=whole(row.get("index")),
        uuid=word(row.get("uuid") or row.get("gpu_uuid")),
        name=word(row.get("name") or row.get("gpu_name")),
        pci_bus_id=bus_id(row.get("pci.bus_id") or row.get("gpu_bus_id")),
        memory_total_mib=mib(row.get("memory.total")),
        memory_used_mib=mib(row.get("memory.used")),
        compute_mode=word(row.get("compute_mode")),
        persistence_mode=mode(row.get("persistence_mode")),
        temperature_c=whole(row.get("temperature.gpu")),
        power_draw_w=number(row.get("power.draw")),
        power_limit_w=number(row.get("power.limit")),
        utilization_gpu_pct=whole(row.get("utilization.gpu")),
        ecc={
            "current": mode(row.get("ecc.mode.current")),
            "pending": mode(row.get("ecc.mode.pending")),
            "uncorrected_aggregate": whole(row.get("ecc.errors.uncorrected.aggregate.total")),
        },
        retired_or_remapped={
            "pending": either(yes(row.get("retired_pages.pending")), yes(row.get("remapped_rows.pending"))),
            "failure": failure,
        },
        fabric={"state": word(row.get("fabric.state")), "status": word(row.get("fabric.status"))},
    )
    gpu["mig"].update(current=current, pending=mode(row.get("mig.mode.pending")))
    # A lost GPU without a value may still support MIG.
    ill = whole_gpu_problems(row.values())
    gpu["mig"]["capable"] = current is not None if "mig.mode.current" in row and not ill else None
    numbers = ("memory", "temperature", "power", "utilization")
    gpu["problems"] = list(
        dict.fromkeys([*ill, *faults(((label, row.get(column)) for column, label in _FAULTY.items()), numbers)])
    )
    gpu["problems"] += health(row.get("gpu_recovery_action"), None, fabric, gpu["retired_or_remapped"])
    reading.gpus.append(gpu)


def _csv_process(reading: Reading, row: dict[str, str], known: dict[Any, dict[str, Any]]) -> None:
    uuid, address = word(row.get("gpu_uuid")), bus_id(row.get("gpu_bus_id"))
    process = {
        "pid": whole(row.get("pid")),
        "type": "C",
        "name": word(row.get("process_name") or row.get("name")),
        "used_memory_mib": mib(row.get("used_gpu_memory") or row.get("used_memory")),
        "gi": None,
        "ci": None,
    }
    gpu = known.get((uuid, address))
    if gpu is None:
        gpu = known[uuid, address] = empty_gpu(uuid=uuid, pci_bus_id=address, name=word(row.get("gpu_name")))
        reading.gpus.append(gpu)
    gpu["processes"].append(process)
