"""Capture every form of nvidia-smi's output that the collection reads, and compare the parsed values with NVML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_check.nvml import Facts
from gpu_check.process import run
from gpu_check.result import Part, last_line

_GPU = (
    *("index", "minor_number", "uuid", "name", "brand", "architecture", "pci_bus_id", "memory_total_mib"),
    *("memory_used_mib", "compute_mode", "persistence_mode", "temperature_c", "power_draw_w", "power_limit_w"),
    *("utilization_gpu_pct", "mig.current", "mig.pending", "mig.capable", "ecc.current", "ecc.pending"),
    *("ecc.uncorrected_aggregate", "retired_or_remapped.pending", "retired_or_remapped.failure", "fabric.state"),
    *("fabric.status", "processes", "problems", "mig.devices"),
)
_NOT_IN_CSV = ("minor_number", "brand", "architecture", "processes", "mig.devices")
_TABLE = (
    *("index", "name", "pci_bus_id", "memory_total_mib", "memory_used_mib", "compute_mode", "persistence_mode"),
    *("temperature_c", "power_draw_w", "power_limit_w", "utilization_gpu_pct", "mig.current", "ecc.current"),
    *("processes", "problems", "mig.devices"),
)
# Allowed difference between a value and NVML's value before and after: absolute, and relative. All but the memory size
# and the power limit, which are rounded, change by themselves.
_BOUNDS = {
    "temperature_c": (4, 0.0),
    "power_draw_w": (25, 0.25),
    "power_limit_w": (1, 0.0),
    "memory_total_mib": (1, 0.0),
    "memory_used_mib": (16, 0.02),
    "utilization_gpu_pct": (50, 0.0),
}
_CHANGING = ("temperature_c", "power_draw_w", "memory_used_mib", "processes")


@dataclass(frozen=True)
class Form:
    """One form. ``minimum`` is the minimum number of compared values, per GPU if the form describes GPUs.

    ``heading`` names values of the host, ``gpu`` values of each GPU. ``optional`` forms don't exist in every version or
    on every platform.
    """

    arguments: tuple[str, ...]
    minimum: int
    heading: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    optional: bool = False


# Consumer GPUs often have no ECC mode, and some report no power limit, so the minimum is lower than for most GPUs.
FORMS: dict[str, Form] = {
    "-L": Form(("-L",), 3, (), ("index", "uuid", "name", "mig.devices")),
    "table": Form((), 9, ("driver_version", "cuda_version"), _TABLE),
    "-q": Form(("-q",), 13, ("driver_version", "cuda_version", "count"), _GPU),
    "-q -x": Form(("-q", "-x"), 13, ("driver_version", "cuda_version", "count"), _GPU),
    "csv": Form(("--query-gpu",), 11, ("driver_version", "count"), tuple(n for n in _GPU if n not in _NOT_IN_CSV)),
    "topo -m": Form(("topo", "-m"), 1, optional=True),
    "--version": Form(("--version",), 1, ("driver_version", "cuda_version"), optional=True),
    # Queried before MIG is changed.
    "csv for MIG": Form(("--query-gpu", "--format=csv,noheader,nounits"), 3),
    "mig -lgip": Form(("mig", "-lgip"), 0, optional=True),
    "mig -lgipp": Form(("mig", "-lgipp"), 0, optional=True),
    "mig -lgi": Form(("mig", "-lgi"), 0, optional=True),
    "mig -lci": Form(("mig", "-lci"), 0, optional=True),
}
# CSV columns of values that some drivers don't provide.
_COLUMNS = {
    "mig.current": "mig.mode.current",
    "mig.pending": "mig.mode.pending",
    "retired_or_remapped.failure": "remapped_rows.failure",
    "fabric.state": "fabric.state",
    "fabric.status": "fabric.status",
}
_MIG_ROW = r"^\|\s+{}\s+MIG "
# nvidia-smi topo -m truncates a CPU list after this many ranges.
_MOST_RANGES = 6
_TIMEOUT = 20


@dataclass(frozen=True)
class Output:
    """Output of nvidia-smi in one form, and its exit status."""

    text: str
    status: int


def capture(program: str, environment: Mapping[str, str], remaining: Callable[[], float]) -> dict[str, Output]:
    """Return the output of every form. Raises NotRunError if nvidia-smi can't be run."""
    # The collection's NvidiaSmi class knows the fields of the CSV query.
    from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import Result
    from ansible_collections.gpulab.kubernetes.plugins.module_utils._mig.profiles import QUERY
    from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.facts import NvidiaSmi

    outputs: list[Output] = []

    def ask(arguments: Sequence[str]) -> Result:
        done = run([program, *arguments], environment, min(_TIMEOUT, remaining()))
        outputs.append(Output(done.stdout, done.returncode))
        return Result((program, *arguments), done.returncode, done.stdout, done.stderr)

    found = {}
    for name, form in FORMS.items():
        if name == "csv":
            NvidiaSmi(ask).query()
        elif name == "csv for MIG":
            query, answer = form.arguments
            ask([f"{query}={','.join(QUERY)}", answer])
        else:
            ask(form.arguments)
        found[name] = outputs[-1]
    return found


def compare(part: Part, outputs: Mapping[str, Output], before: Facts, after: Facts) -> None:
    """Compare the values read from each form with NVML's values before and after, and note differences in ``part``."""
    for name, form in FORMS.items():
        output = outputs[name]
        if output.status and form.optional and not name.startswith("mig"):
            part.unavailable.append(f"{name} (nvidia-smi: {last_line(output.text)})")
            continue
        if output.status and not form.optional:
            part.compare(name, "exit status", output.status, 0)
        try:
            _compare_form(part, name, {key: each.text for key, each in outputs.items()}, before, after)
        except Exception as error:  # Readers must not raise, so an exception is a difference.
            part.differ(name, "reading", f"{type(error).__name__}: {error}", "no exception")
        least = form.minimum * (len(before.gpus) if form.gpu else 1)
        if part.compared.get(name, 0) < least:
            part.differ(name, "number of compared values", part.compared.get(name, 0), f"at least {least}")


def may_be_passing(part: Part) -> bool:
    """Return whether only values that change by themselves differ, so that another capture may agree."""
    return bool(part.differences) and all(each.field.startswith(_CHANGING) for each in part.differences)


def _compare_form(part: Part, name: str, texts: Mapping[str, str], before: Facts, after: Facts) -> None:
    from ansible_collections.gpulab.kubernetes.plugins.module_utils._mig import profiles
    from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.facts import read

    if name == "topo -m":
        compare_topology(part, name, read(texts[name]).topology, before)
    elif name == "mig -lgip":
        _compare_profiles(part, name, texts[name], profiles.parse_profiles(texts[name]), before)
    elif name == "mig -lgipp":
        _compare_placements(
            part, name, profiles.parse_placements(texts[name]), profiles.parse_profiles(texts["mig -lgip"]), before
        )
    elif name == "csv for MIG":
        _compare_csv_for_mig(part, name, profiles.parse_gpus(texts[name]), before)
    elif name == "mig -lgi":
        _compare_instances(part, texts, profiles.parse_instances, before)
    elif name != "mig -lci":
        reading = read(texts[name])
        found: dict[str, Any] = {"count": reading.attached, "gpus": reading.gpus}
        found |= {"driver_version": reading.driver_version, "cuda_version": reading.cuda_version}
        compare_gpus(part, name, found, before, after, _lacking(texts[name], before) if name == "csv" else {})
        part.compare(name, "complete", reading.complete, True)
        if name == "table":
            # Only nvidia-smi itself may truncate a name.
            for number, gpu in enumerate(reading.gpus):
                part.check(name, f"name of GPU {number}", str(gpu["name"]) in texts[name], gpu["name"], "a name in it")


def _lacking(text: str, facts: Facts) -> dict[int, set[str]]:
    """Return the values without a CSV column or value, by GPU. Cells without a value are in brackets."""
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

    ``where`` is a key of FORMS, or the name of a module, which has the values of -q -x. ``lacking`` names the values,
    by GPU, that nvidia-smi itself does not print in this form.
    """
    form = FORMS.get(where, FORMS["-q -x"])
    reference = {"driver_version": before.driver_version, "cuda_version": before.cuda_version}
    for name in form.heading:
        expected = {**reference, "count": len(before.gpus)}[name]
        if expected is not None:
            part.compare(where, name, found[name], expected)
    gpus = found["gpus"]
    if form.gpu and len(gpus) != len(before.gpus):
        part.differ(where, "number of GPUs", len(gpus), len(before.gpus))
        return
    for number, gpu in enumerate(gpus if form.gpu else ()):
        for name in form.gpu:
            if name == "mig.devices":
                _compare_mig_devices(part, where, number, gpu, before.gpus[number])
            elif name in (lacking or {}).get(number, ()):
                continue
            elif name in before.gpus[number] and name in after.gpus[number]:
                _compare_value(part, where, number, name, _value(gpu, name), before, after)


def _value(gpu: Mapping[str, Any], name: str) -> Any:
    if name == "processes":
        return sorted({process["pid"] for process in gpu["processes"]})
    first, _dot, second = name.partition(".")
    return gpu[first][second] if second else gpu[first]


def _compare_value(part: Part, where: str, number: int, name: str, value: Any, before: Facts, after: Facts) -> None:
    first, last = before.gpus[number][name], after.gpus[number][name]
    label = f"{name} of GPU {number}"
    if name == "power_limit_w":
        # Depending on its version, nvidia-smi prints the requested limit or the enforced one.
        limits = (first, before.gpus[number].get("enforced_power_limit_w", first))
        part.check(where, label, any(_within(value, one, one, *_BOUNDS[name]) for one in limits), value, first)
    elif name in _BOUNDS:
        part.check(where, label, _within(value, first, last, *_BOUNDS[name]), value, first)
    elif first != last:
        part.unavailable.append(f"{where}: {label} (it changed between the readings)")
    elif name == "name" and where == "table":
        part.check(where, label, _is_shortened(value, first), value, first)
    elif name == "processes" and value == [] and first and not any(Path(f"/proc/{pid}").exists() for pid in first):
        part.unavailable.append(f"{where}: {label} (they can't be seen from inside of this container)")
    else:
        part.compare(where, label, value, first)


def _within(value: Any, first: float, last: float, absolute: float, share: float) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    low, high = min(first, last), max(first, last)
    return low - absolute - share * low <= value <= high + absolute + share * high


def _is_shortened(value: Any, name: str) -> bool:
    """Return whether a name in the table is the GPU's name, which older versions truncate with dots."""
    text = str(value)
    return text == name or (text.endswith("...") and name.startswith(text[:-3].rstrip()) and len(text) > 10)


def _compare_mig_devices(
    part: Part, where: str, number: int, gpu: Mapping[str, Any], reference: Mapping[str, Any]
) -> None:
    """Compare the MIG devices of a GPU in order. Only -L always has the profiles and, for every driver, the UUIDs."""
    keys = {"-L": ("uuid", "profile"), "nvidia_smi_info": ("uuid", "profile", "gi", "ci", "memory_total_mib")}.get(
        where, ("gi", "ci", "memory_total_mib")
    )
    found, expected = (
        [tuple(device[key] for key in keys) for device in devices]
        for devices in (gpu["mig"]["devices"], reference["mig.devices"])
    )
    if found or expected:
        part.compare(where, f"mig.devices of GPU {number}", found, expected)


def compare_topology(part: Part, where: str, found: Mapping[str, Any] | None, facts: Facts) -> None:
    """Compare how the GPUs are connected, and which CPUs are closest."""
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
        text = found["cpu_affinity"].get(names[index])
        whole = text == expected
        cut_off = bool(text) and text.count(",") + 1 == _MOST_RANGES and expected.startswith(f"{text},")
        if expected:
            part.check(where, f"cpu_affinity of GPU {index}", whole or cut_off, text, expected)


def _compare_profiles(
    part: Part, where: str, text: str, found: Mapping[int, Sequence[tuple[str, int, int]]], facts: Facts
) -> None:
    for index, expected in facts.profiles.items():
        if expected and not found.get(index) and not re.search(_MIG_ROW.format(index), text, re.MULTILINE):
            part.unavailable.append(f"{where}: profiles of GPU {index} (nvidia-smi lists none while MIG is off)")
        elif expected:
            part.compare(where, f"profiles of GPU {index}", set(found.get(index, ())), expected)


def _compare_placements(
    part: Part,
    where: str,
    found: Mapping[int, Mapping[int, tuple[tuple[int, ...], int]]],
    listed: Mapping[int, Sequence[tuple[str, int, int]]],
    facts: Facts,
) -> None:
    """Compare the possible placements of each profile, for GPUs whose profiles nvidia-smi lists."""
    for index, expected in facts.placements.items():
        if expected and listed.get(index):
            known = {number: (tuple(sorted(starts)), size) for number, (starts, size) in found.get(index, {}).items()}
            part.compare(where, f"placements of GPU {index}", known, expected)


def _compare_csv_for_mig(part: Part, where: str, found: Sequence[Any], facts: Facts) -> None:
    part.compare(where, "number of GPUs", len(found), len(facts.gpus))
    for read, gpu in zip(found, facts.gpus, strict=False):
        label = f"of GPU {gpu['index']}"
        modes = {None: None, "Enabled": True, "Disabled": False}
        part.compare(where, f"index {label}", read.index, gpu["index"])
        part.compare(where, f"uuid {label}", read.uuid, gpu.get("uuid"))
        part.compare(where, f"name {label}", read.name, gpu.get("name"))
        total = gpu.get("memory_total_mib", 0)
        part.check(where, f"memory {label}", _within(read.memory, total, total, 1, 0), read.memory, total)
        part.compare(where, f"mig.current {label}", read.current, modes[gpu.get("mig.current")])
        part.compare(where, f"mig.pending {label}", read.pending, modes[gpu.get("mig.pending")])


def _compare_instances(
    part: Part, texts: Mapping[str, str], parse: Callable[[str, str], Sequence[Any]], facts: Facts
) -> None:
    """Compare the GPU instances that contain MIG devices. NVML does not list instances without a device."""
    found = parse(texts["mig -lgi"], texts["mig -lci"])
    for index, expected in facts.instances.items():
        mine = [instance for instance in found if instance.gpu == index]
        if not expected:
            continue
        places = {(instance.id, instance.start) for instance in mine}
        part.check("mig -lgi", f"instances of GPU {index}", expected <= places, places, expected)
        whole = {instance.id for instance in mine if instance.whole}
        alone = {device["gi"] for device in facts.gpus[index]["mig.devices"] if "c." not in device["profile"]}
        part.compare("mig -lci", f"whole instances of GPU {index}", whole, alone)
