"""Captures every form of nvidia-smi's output that the collection reads, and compares what it reads with NVML."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_check.nvml import Facts
from gpu_check.result import NotRunError, Part

_GPU = (
    *("index", "minor_number", "uuid", "name", "brand", "architecture", "pci_bus_id", "memory_total_mib"),
    *("memory_used_mib", "compute_mode", "persistence_mode", "temperature_c", "power_draw_w", "power_limit_w"),
    *("utilization_gpu_pct", "mig.current", "mig.pending", "mig.capable", "ecc.current", "ecc.pending"),
    *("ecc.uncorrected_aggregate", "retired_or_remapped.pending", "retired_or_remapped.failure", "fabric.state"),
    *("processes", "problems", "mig.devices"),
)
_CSV = tuple(name for name in _GPU if name not in ("minor_number", "brand", "architecture", "processes", "mig.devices"))
_TABLE = (
    *("index", "name", "pci_bus_id", "memory_total_mib", "memory_used_mib", "compute_mode", "persistence_mode"),
    *("temperature_c", "power_draw_w", "power_limit_w", "utilization_gpu_pct", "mig.current", "ecc.current"),
    *("processes", "problems", "mig.devices"),
)
# How far a value that moves may lie outside of what NVML read before and after, absolute and as a share.
_BOUNDS = {
    "temperature_c": (4, 0.0),
    "power_draw_w": (25, 0.25),
    "memory_used_mib": (64, 0.02),
    "utilization_gpu_pct": (100, 0.0),
}
# In the table, values are rounded to whole watts.
_ROUNDED = {"power_limit_w": 1.0}


@dataclass(frozen=True)
class Form:
    """One form. ``minimum`` is how many values are compared at least, for each GPU, on any GPU and driver.

    ``heading`` names values of the host, ``gpu`` values of each GPU.
    """

    arguments: tuple[str, ...]
    minimum: int
    heading: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()


# Consumer GPUs have no ECC mode, and some report no power limit, so that the minimum is below what most GPUs have.
FORMS: dict[str, Form] = {
    "-L": Form(("-L",), 3, (), ("index", "uuid", "name", "mig.devices")),
    "table": Form((), 9, ("driver_version", "cuda_version"), _TABLE),
    "-q": Form(("-q",), 13, ("driver_version", "cuda_version", "count"), _GPU),
    "-q -x": Form(("-q", "-x"), 13, ("driver_version", "cuda_version", "count"), _GPU),
    "csv": Form(("--query-gpu",), 11, ("driver_version", "count"), _CSV),
    "topo -m": Form(("topo", "-m"), 1),
    "--version": Form(("--version",), 1, ("driver_version", "cuda_version")),
    "mig -lgip": Form(("mig", "-lgip"), 0),
    "mig -lgi": Form(("mig", "-lgi"), 0),
    "mig -lci": Form(("mig", "-lci"), 0),
}
# The column of each value that drivers may lack a column for, or a value.
_COLUMNS = {
    "mig.current": "mig.mode.current",
    "mig.pending": "mig.mode.pending",
    "retired_or_remapped.failure": "remapped_rows.failure",
    "fabric.state": "fabric.state",
}
_MIG_ROW = r"^\|\s+{}\s+MIG "


@dataclass(frozen=True)
class Output:
    """What nvidia-smi printed in one form, and its exit status."""

    text: str
    status: int


def capture(
    program: str, environment: Mapping[str, str], client: Callable[[Callable[[Sequence[str]], Any]], Any]
) -> dict[str, Output]:
    """Return the output of every form. ``client`` makes the collection's NvidiaSmi, which knows the fields of its CSV.

    Raises NotRunError if nvidia-smi can't be run.
    """
    from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import Result

    outputs: list[Output] = []

    def run(arguments: Sequence[str]) -> Any:
        try:
            done = subprocess.run(
                [program, *arguments], env=environment, capture_output=True, text=True, errors="replace", timeout=30
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotRunError(f"{program} {' '.join(arguments)} can't be run: {error}") from None
        outputs.append(Output(done.stdout, done.returncode))
        return Result((program, *arguments), done.returncode, done.stdout, done.stderr)

    found = {}
    for name, form in FORMS.items():
        if name == "csv":
            client(run)._query()
        else:
            run(form.arguments)
        found[name] = outputs[-1]
    return found


def compare(part: Part, outputs: Mapping[str, Output], before: Facts, after: Facts) -> None:
    """Compare what the readers get from each form with what NVML read before and after, and note it in ``part``."""
    from ansible_collections.gpulab.kubernetes.plugins.module_utils._mig import profiles
    from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.facts import read

    texts = {name: output.text for name, output in outputs.items()}
    refused = {name for name, output in outputs.items() if output.status and not name.startswith("mig")}
    for name in FORMS:
        if name in refused:
            # This version doesn't have the form, or this platform can't answer.
            words = [line.strip() for line in texts[name].splitlines() if line.strip()]
            part.unavailable.append(f"{name} (nvidia-smi: {words[-1] if words else 'no output'})")
            continue
        try:
            if name == "topo -m":
                compare_topology(part, name, read(texts[name]).topology, before)
            elif name == "mig -lgip":
                _compare_profiles(part, name, texts[name], profiles.parse_profiles(texts[name]), before)
            elif name == "mig -lgi":
                _compare_instances(part, name, texts, profiles.parse_instances, before)
            elif name != "mig -lci":
                reading = read(texts[name])
                found: dict[str, Any] = {"count": reading.attached, "gpus": reading.gpus}
                found |= {"driver_version": reading.driver_version, "cuda_version": reading.cuda_version}
                lacking = _lacking(texts[name], before) if name == "csv" else {}
                compare_gpus(part, name, found, before, after, lacking)
                part.compare(name, "complete", reading.complete, True)
        except Exception as error:  # A reader is total: whatever it raises is a difference.
            part.differ(name, "reading", f"{type(error).__name__}: {error}", "no exception")
    for name, form in FORMS.items():
        least = form.minimum * (len(before.gpus) if form.gpu else 1)
        if name not in refused and part.compared.get(name, 0) < least:
            part.differ(name, "number of compared values", part.compared.get(name, 0), f"at least {least}")


def _lacking(text: str, facts: Facts) -> dict[int, set[str]]:
    """Return the values that a CSV has no column or no value for, by GPU. Cells without a value are in brackets."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    lacking = {}
    for index, gpu in enumerate(facts.gpus):
        pending = "remapped_rows" if "retired_or_remapped.failure" in gpu else "retired_pages"
        columns = {**_COLUMNS, "retired_or_remapped.pending": f"{pending}.pending"}
        cells = dict(zip(rows[0], rows[index + 1], strict=False)) if len(rows) > index + 1 else {}
        lacking[index] = {name for name, column in columns.items() if cells.get(column, "[").startswith("[")}
    return lacking


def compare_gpus(
    part: Part,
    where: str,
    found: Mapping[str, Any],
    before: Facts,
    after: Facts,
    lacking: Mapping[int, set[str]] | None = None,
) -> None:
    """Compare the values of a host, in the shape of nvidia_smi_info, with NVML's.

    ``where`` is a key of FORMS, or the name of a module, which has the values of C(-q -x). ``lacking`` names values
    that nvidia-smi itself does not have in this form, by GPU.
    """
    form = FORMS.get(where, FORMS["-q -x"])
    reference = {"driver_version": before.driver_version, "cuda_version": before.cuda_version}
    for name in form.heading:
        part.compare(where, name, found[name], {**reference, "count": len(before.gpus)}[name])
    gpus = found["gpus"]
    if form.gpu and len(gpus) != len(before.gpus):
        part.differ(where, "number of GPUs", len(gpus), len(before.gpus))
        return
    for number, gpu in enumerate(gpus if form.gpu else ()):
        for name in form.gpu:
            if name == "mig.devices":
                _compare_parts(part, where, number, gpu, before.gpus[number])
            elif name in (lacking or {}).get(number, ()):
                continue
            elif name in before.gpus[number] and name in after.gpus[number]:
                _compare_value(part, where, number, name, _value(gpu, name), before, after)


def _value(gpu: Mapping[str, Any], name: str) -> Any:
    if name == "processes":
        return sorted({process["pid"] for process in gpu["processes"]})
    first, _dot, second = name.partition(".")
    value = gpu[first][second] if second else gpu[first]
    return list(value) if isinstance(value, tuple) else value


def _compare_value(part: Part, where: str, number: int, name: str, value: Any, before: Facts, after: Facts) -> None:
    first, last = before.gpus[number][name], after.gpus[number][name]
    label = f"{name} of GPU {number}"
    if name in _BOUNDS:
        part.compare(where, label, value, value if _within(value, first, last, *_BOUNDS[name]) else first)
    elif first != last:
        # It changed meanwhile, so that there is nothing to compare with.
        part.unavailable.append(f"{where}: {label} (it changed during the check)")
    elif name == "name" and where == "table":
        part.compare(where, label, value, value if _is_shortened(value, first) else first)
    elif name in _ROUNDED and where == "table":
        part.compare(where, label, value, value if _within(value, first, last, _ROUNDED[name], 0) else first)
    elif name == "processes" and where == "table" and value == [] and first:
        part.unavailable.append(f"{where}: {label} (they are not shown inside of a container)")
    else:
        part.compare(where, label, value, first)


def _within(value: Any, first: float, last: float, absolute: float, share: float) -> bool:
    if not isinstance(value, (int, float)):
        return False
    low, high = min(first, last), max(first, last)
    return low - absolute - share * low <= value <= high + absolute + share * high


def _is_shortened(value: Any, name: str) -> bool:
    """Whether a name in the table is the name of the GPU, which older versions cut off with dots."""
    text = str(value)
    return text == name or (text.endswith("...") and name.startswith(text[:-3].rstrip()) and len(text) > 10)


def _compare_parts(part: Part, where: str, number: int, gpu: Mapping[str, Any], reference: Mapping[str, Any]) -> None:
    """Compare the MIG devices of a GPU in their order. Only -L has the profiles, and the UUIDs with every driver."""
    keys = {"-L": ("uuid", "profile"), "nvidia_smi_info": ("uuid", "profile", "gi", "ci")}.get(where, ("gi", "ci"))
    found, expected = (
        [tuple(device[key] for key in keys) for device in devices]
        for devices in (gpu["mig"]["devices"], reference["mig.devices"])
    )
    if found or expected:
        part.compare(where, f"mig.devices of GPU {number}", found, expected)


def compare_topology(part: Part, where: str, found: Mapping[str, Any] | None, facts: Facts) -> None:
    """Compare how the GPUs are connected, and to which CPUs they are near."""
    names = [f"GPU{index}" for index in range(len(facts.gpus))]
    if found is None:
        part.differ(where, "topology", None, names)
        return
    part.compare(where, "gpus", list(found["gpus"]), names)
    if list(found["gpus"]) != names:
        return
    for (one, other), expected in facts.topology.items():
        cell = found["matrix"][names[one]].get(names[other])
        part.compare(where, f"connection of GPU {one} to GPU {other}", cell, expected)
    for index, expected in facts.affinity.items():
        if expected:
            part.compare(where, f"cpu_affinity of GPU {index}", found["cpu_affinity"].get(names[index]), expected)


def _compare_profiles(
    part: Part, where: str, text: str, found: Mapping[int, Sequence[tuple[str, int, int]]], facts: Facts
) -> None:
    for index, expected in facts.profiles.items():
        if expected and not found.get(index) and not re.search(_MIG_ROW.format(index), text, re.MULTILINE):
            part.unavailable.append(f"{where}: profiles of GPU {index} (nvidia-smi lists none while MIG is off)")
        elif expected:
            part.compare(where, f"profiles of GPU {index}", set(found.get(index, ())), expected)


def _compare_instances(
    part: Part, where: str, texts: Mapping[str, str], parse: Callable[[str, str], Sequence[Any]], facts: Facts
) -> None:
    found = parse(texts["mig -lgi"], texts["mig -lci"])
    for index, expected in facts.instances.items():
        mine = {(one.id, one.start) for one in found if one.gpu == index}
        if expected or mine:
            part.compare(where, f"instances of GPU {index}", mine, expected)
            whole = {one.id for one in found if one.gpu == index and one.whole}
            parts = facts.gpus[index]["mig.devices"]
            alone = {part["gi"] for part in parts if "c." not in part["profile"]}
            part.compare("mig -lci", f"whole instances of GPU {index}", whole, alone)
