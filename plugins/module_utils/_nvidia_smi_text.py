# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the forms of nvidia-smi for people and scripts: CSV, C(-L), the table, C(--version)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi_values import (
    MOST_GPUS,
    Reading,
    bus_id,
    either,
    empty_gpu,
    empty_mig,
    faults,
    health,
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

_FAULTY = {
    "name": "name",
    "uuid": "uuid",
    "memory.total": "memory",
    "temperature.gpu": "temperature",
    "power.draw": "power",
    "utilization.gpu": "utilization",
}

_LIST_GPU = re.compile(r"GPU (\d{1,4}): (.*) \(UUID: (\S+)\)\s*")
_LIST_MIG = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d{1,4}): \(UUID: (\S+)\)\s*")
_OLD_MIG_UUID = re.compile(r"MIG-GPU-[0-9a-f-]+/(\d+)/(\d+)")

_TABLE_VERSIONS = re.compile(r"\b(?:Driver|KMD) Version:\s*(\S+).*?\bCUDA(?: UMD)? Version:\s*(\S+)", re.IGNORECASE)
_LABELLED = re.compile(r"(DRIVER|KMD|CUDA|CUDA UMD) version\s*:\s*([\d.]+)\s*", re.IGNORECASE)
_TABLE_MODE = re.compile(r"(\d{1,4})\s+(\S.*\S|\S)\s+(On|Off|N/A|ERR!|WDDM|TCC|MCDM)")
_TABLE_BUS = re.compile(r"((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s+\S+")
_TABLE_MIG = re.compile(r"(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})")
_MEMORY = re.compile(r"(\d+[KMG]i?B) */ *(\d+[KMG]i?B)")
_POWER = re.compile(r"([\d.]+)W */ *([\d.]+)W")
_TEMPERATURE = re.compile(r"(?:^|\s)(\d{1,3})C(?:\s|$)")
_PROCESS = re.compile(
    r"\|\s+(\d{1,4})\s+(?:(\d{1,4}|N/A)\s+(\d{1,4}|N/A)\s+)?(\d{1,10})\s+(C\+G|C|G|M\+C)\s+(\S.*?)\s+(\d+MiB|N/A)\s*\|"
)


def csv_header(text: str) -> int | None:
    """The number of the line that names the columns of a CSV, None when there is none."""
    for place, line in enumerate(text.split("\n")[:200]):
        cells = [cell.strip() for cell in line.split(",")]
        if all(_COLUMN.fullmatch(cell) for cell in cells) and _KNOWN_COLUMNS & {c.split(" ")[0] for c in cells}:
            return place
    return None


def read_csv(text: str, header: int) -> Reading:
    """CSV with a header, read by the names in it; rows of another length are no data."""
    lines = text.split("\n")
    columns = [cell.strip().split(" ")[0] for cell in lines[header].split(",")]
    processes = "pid" in columns
    # The processes name the GPUs that are in use only.
    reading = Reading("processes" if processes else "csv", complete=text.endswith("\n") and not processes)
    known: dict[Any, dict[str, Any]] = {}
    reading.messages = [line.strip() for line in lines[:header] if line.strip()]
    for line in lines[header + 1 :]:
        cells = [cell.strip() for cell in line.split(",")]
        extra = len(cells) - len(columns)
        if extra > 0 and processes and "process_name" in columns:
            # The name of a process is the one field that may hold commas.
            start = columns.index("process_name")
            cells[start : start + extra + 1] = [",".join(cells[start : start + extra + 1])]
        if len(cells) == len(columns):
            row = dict(zip(columns, cells))
            _csv_process(reading, row, known) if processes else _csv_gpu(reading, row)
        elif line.strip():
            reading.messages.append(line.strip())
    return reading


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
    gpu["mig"]["capable"] = current is not None if "mig.mode.current" in row else None
    gpu["problems"] = faults((label, row.get(column)) for column, label in _FAULTY.items())
    gpu["problems"] += health(row.get("gpu_recovery_action"), None, fabric, failure)
    reading.gpus.append(gpu)


def _csv_process(reading: Reading, row: dict[str, str], known: dict[Any, dict[str, Any]]) -> None:
    uuid, address = word(row.get("gpu_uuid")), bus_id(row.get("gpu_bus_id"))
    process = {
        "pid": whole(row.get("pid")),
        "type": "C",
        "name": word(row.get("process_name")),
        "used_memory_mib": mib(row.get("used_gpu_memory") or row.get("used_memory")),
        "gi": None,
        "ci": None,
    }
    gpu = known.get((uuid, address))
    if gpu is None:
        gpu = known[uuid, address] = empty_gpu(uuid=uuid, pci_bus_id=address, name=word(row.get("gpu_name")))
        reading.gpus.append(gpu)
    gpu["processes"].append(process)


def read_list(text: str) -> Reading:
    """C(nvidia-smi -L): GPUs, and below each its MIG devices."""
    reading = Reading("list", complete=True)
    for line in _short(text):
        if len(reading.gpus) > MOST_GPUS:
            break
        gpu, mig = _LIST_GPU.fullmatch(line), _LIST_MIG.fullmatch(line)
        if gpu:
            reading.gpus.append(empty_gpu(index=int(gpu[1]), name=word(gpu[2]), uuid=word(gpu[3])))
        elif mig and reading.gpus:
            old = _OLD_MIG_UUID.fullmatch(mig[3])
            gi, ci = (int(old[1]), int(old[2])) if old else (None, None)
            device = empty_mig(index=int(mig[2]), profile=mig[1], uuid=mig[3], gi=gi, ci=ci)
            reading.gpus[-1]["mig"]["devices"].append(device)
        elif line.strip():
            reading.messages.append(line.strip())
    # A line that begins like the others and doesn't end like them was cut off.
    reading.complete = not any(re.match(r"GPU \d+: |MIG \S+ ", line) for line in reading.messages)
    return reading


def read_table(text: str) -> Reading:
    """The table for people. Names may be shortened in it, and UUIDs are missing."""
    reading = Reading("table")
    numbered: dict[int, dict[str, Any]] = {}
    gpu: dict[str, Any] | None = None
    rows = 0
    for line in _short(text):
        cells = [cell.strip() for cell in line.split("|")[1:-1]] if line.startswith("|") else []
        found = _TABLE_VERSIONS.search(line) if "NVIDIA-SMI" in line else None
        process = _PROCESS.match(line) if len(cells) == 1 else None
        head, bus = (_TABLE_MODE.fullmatch(cells[0]), _TABLE_BUS.match(cells[1])) if len(cells) == 3 else (None, None)
        mig = _TABLE_MIG.fullmatch(cells[0]) if len(cells) >= 4 else None
        if found:
            reading.driver_version, reading.cuda_version = version(found[1]), version(found[2])
        elif head and bus:
            gpu, rows = _table_gpu(head, bus[1], cells[2]), 1
            reading.gpus.append(gpu)
            numbered[int(head[1])] = gpu
        elif gpu and len(cells) == 3 and rows == 1:
            _table_second(gpu, cells)
            rows = 2
        elif gpu and len(cells) == 3 and rows == 2:
            current = mode(cells[2])
            gpu["mig"].update(capable=current is not None, current=current)
            rows = 3
        elif mig and int(mig[1]) in numbered:
            numbered[int(mig[1])]["mig"]["devices"].append(_table_mig(mig, cells[1]))
        elif process and int(process[1]) in numbered:
            numbered[int(process[1])]["processes"].append(_table_process(process))
        elif line.strip() and not line.startswith(("|", "+")):
            reading.messages.append(line.strip())
    # Only the box of the processes, down to its lower edge, tells that no GPU was cut off.
    edges = [line.rstrip() for line in _short(text) if line.startswith("+")]
    whole_edge = bool(edges) and text.rstrip().endswith("\n" + max(edges, key=len)) and edges[-1] == edges[0]
    reading.complete = rows > 1 and "Processes:" in text and whole_edge
    reading.messages = [line for line in reading.messages if not re.match(r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d", line)]
    return reading


def _table_gpu(head: re.Match[str], address: str, ecc: str) -> dict[str, Any]:
    gpu = empty_gpu(index=int(head[1]), name=word(head[2]), pci_bus_id=bus_id(address), persistence_mode=mode(head[3]))
    gpu["ecc"]["current"] = "Enabled" if ecc.isdigit() else mode(ecc)
    gpu["problems"] = faults([("persistence mode", head[3]), ("ECC errors", ecc)])
    return gpu


def _table_second(gpu: dict[str, Any], cells: list[str]) -> None:
    power, memory, temperature = _POWER.search(cells[0]), _MEMORY.search(cells[1]), _TEMPERATURE.search(cells[0])
    use, _gap, compute = cells[2].partition(" ")
    gpu.update(
        temperature_c=int(temperature[1]) if temperature else None,
        power_draw_w=float(power[1]) if power and number(power[1]) is not None else None,
        power_limit_w=float(power[2]) if power and number(power[2]) is not None else None,
        memory_used_mib=mib(memory[1]) if memory else None,
        memory_total_mib=mib(memory[2]) if memory else None,
        utilization_gpu_pct=whole(use),
        compute_mode={"E. Process": "Exclusive_Process"}.get(compute.strip(), word(compute)),
    )
    labels = ("fan speed", "temperature", "performance state", "power")
    gpu["problems"] += faults([*zip(labels, cells[0].split()), ("memory", cells[1]), ("utilization", use)])


def _table_mig(match: re.Match[str], memory: str) -> dict[str, Any]:
    sizes = _MEMORY.search(memory)
    total = mib(sizes[2]) if sizes else None
    return empty_mig(gi=int(match[2]), ci=int(match[3]), index=int(match[4]), memory_total_mib=total)


def _table_process(match: re.Match[str]) -> dict[str, Any]:
    return {
        "pid": int(match[4]),
        "type": match[5],
        "name": match[6],
        "used_memory_mib": mib(match[7]),
        "gi": whole(match[2]),
        "ci": whole(match[3]),
    }


def _short(text: str) -> Iterator[str]:
    """The lines, without those that are longer than any that nvidia-smi prints in these forms."""
    return (line for line in text.split("\n") if len(line) < 1000)


def read_version(text: str) -> Reading:
    """C(nvidia-smi --version): versions only."""
    reading = Reading("version", complete=True)
    for line in _short(text):
        match = _LABELLED.fullmatch(line)
        if match and match[1].upper() in ("DRIVER", "KMD"):
            reading.driver_version = version(match[2])
        elif match:
            reading.cuda_version = version(match[2])
        elif line.strip():
            reading.messages.append(line.strip())
    return reading
