"""gpu-check on simulated GPUs: every form of Debian's nvidia-smi agrees with NVML, and a broken reader is named."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gpusim_probe import DRIVER, Machine, machine

from lab.depot.cache import DepotError
from lab.gpusim import models, nvidia_smi

ROOT = Path(__file__).resolve().parents[3]
UTILITIES = ROOT / "plugins" / "module_utils"
# As nvidia-smi 580 prints it, which can't read the simulated PCI bus outside of a lab.
TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tSYS\t{0}\t0\t\tN/A\n"
    "GPU1\tSYS\t X \t{1}\t1\t\tN/A\n\n"
    "Legend:\n\n  X    = Self\n"
)
CAPTURE = """
import pickle, sys
from gpu_check import forms
from gpu_check.nvml import Nvml
import os
with Nvml() as nvml:
    before = nvml.read()
    outputs = forms.capture(sys.argv[1], os.environ, lambda: 20)
    pickle.dump((before, outputs, nvml.read()), open(sys.argv[2], "wb"))
"""
COMPARE = """
import json, pickle, sys
from gpu_check import forms
from gpu_check.result import Part
before, outputs, after = pickle.load(open(sys.argv[1], "rb"))
outputs["topo -m"] = forms.Output(sys.argv[2].format(*before.affinity.values()), 0)
part = Part("readers")
forms.compare(part, outputs, before, after)
print(json.dumps([part.compared, [[each.where, each.field] for each in part.differences], part.unavailable]))
"""
# File, text, replacement, and the form and value that must be named.
EDITS = (
    ("listing.py", r"GPU (\d{1,4}): (.*) \(UUID", r"GPU (\d{1,4}): .*(.*) \(UUID", "-L", "name of GPU 0"),
    ("listing.py", "index=int(gpu[1])", "index=int(gpu[1]) + 1", "-L", "index of GPU 0"),
    ("listing.py", "uuid=word(gpu[3])", "uuid=None", "-L", "uuid of GPU 0"),
    ("listing.py", "profile=mig[1]", "profile=mig[1][1:]", "-L", "mig.devices of GPU 0"),
    ("listing.py", r"\s{0,20}GPU (\d{1,4})", r"\s{1,20}GPU (\d{1,4})", "-L", "number of GPUs"),
    ("listing.py", '("DRIVER", "KMD")', '("KMD",)', "--version", "driver_version"),
    ("table.py", "whole(use)", "whole(None)", "table", "utilization_gpu_pct of GPU 1"),
    ("table.py", "int(temperature[1])", "int(temperature[1]) + 100", "table", "temperature_c of GPU 0"),
    ("table.py", "mib(memory[2])", "mib(memory[1])", "table", "memory_total_mib of GPU 0"),
    ("table.py", "number(power[2])", "number(power[1])", "table", "power_limit_w of GPU 0"),
    ("table.py", "number(power[1]) if", "number(power[2]) if", "table", "power_draw_w of GPU 0"),
    ("table.py", "capable=current is not None, current=current", "current=None", "table", "mig.current of GPU 0"),
    ("table.py", "pci_bus_id=bus_id(address)", "pci_bus_id=None", "table", "pci_bus_id of GPU 0"),
    ("table.py", "mode(head[3])", "None", "table", "persistence_mode of GPU 0"),
    ("table.py", r"\bCUDA(?: UMD)? Version", r"\bCUDA UMD Version", "table", "cuda_version"),
    ("table.py", "gi=int(match[2])", "gi=int(match[3])", "table", "mig.devices of GPU 0"),
    ("query.py", 'get("minor_number")', 'get("minor")', "-q -x", "minor_number of GPU 0"),
    ("query.py", 'get("uuid", "gpu_uuid")', 'get("uuid")', "-q", "uuid of GPU 0"),
    ("query.py", 'get("uuid", "gpu_uuid")', 'get("gpu_uuid")', "-q -x", "uuid of GPU 0"),
    ("query.py", 'get("product_brand")', 'get("product_name")', "-q -x", "brand of GPU 0"),
    ("query.py", 'get("product_architecture")', "None", "-q", "architecture of GPU 0"),
    ("query.py", 'mib(get("fb_memory_usage/total"))', 'mib(get("bar1_memory_usage/total"))', "-q", "memory_total_mib"),
    ("query.py", 'get("compute_mode")', 'get("persistence_mode")', "-q -x", "compute_mode of GPU 0"),
    ("query.py", "temperature_c=whole(get(*_TEMPERATURE))", "temperature_c=None", "-q -x", "temperature_c of GPU 0"),
    ("query.py", "power_draw_w=number(get(*_DRAW))", "power_draw_w=number(get(*_LIMIT))", "-q", "power_draw_w"),
    ("query.py", "number(get(*_LIMIT))", "number(get(*_DRAW))", "-q -x", "power_limit_w of GPU 0"),
    ("query.py", '"mig_mode/pending_mig", "mig_mode/pending"', '"mig_mode"', "-q -x", "mig.pending of GPU 0"),
    ("query.py", '"ecc_mode/current_ecc", "ecc_mode/current"', '"ecc"', "-q", "ecc.current of GPU 0"),
    ("query.py", 'element.find("ecc_errors/aggregate")', "None", "-q -x", "ecc.uncorrected_aggregate of GPU 0"),
    ("query.py", '"remapped_rows/remapped_row_failure", ', "", "-q -x", "retired_or_remapped.failure of GPU 0"),
    ("query.py", '"attached_gpus"', '"attached"', "-q", "count"),
    ("query.py", 'whole(element.findtext("gpu_instance_id"))', "None", "-q -x", "mig.devices of GPU 0"),
    ("query_csv.py", 'bus_id(row.get("pci.bus_id")', 'bus_id(row.get("pci.bus")', "csv", "pci_bus_id of GPU 0"),
    ("query_csv.py", 'number(row.get("power.limit"))', "None", "csv", "power_limit_w of GPU 0"),
    ("query_csv.py", 'mib(row.get("memory.used"))', 'mib(row.get("memory.total"))', "csv", "memory_used_mib of GPU 0"),
    ("query_csv.py", 'mode(row.get("ecc.mode.current"))', "None", "csv", "ecc.current of GPU 0"),
    ("query_csv.py", 'whole(row.get("count"))', "None", "csv", "count"),
    ("topology.py", "zip(devices, row[1:])", "zip(devices, row[2:])", "topo -m", "connection of GPU 0 to GPU 0"),
    ("topology.py", '"cpu_affinity": "CPU Affinity"', '"cpu_affinity": "NUMA Affinity"', "topo -m", "topology"),
    ("values.py", '"MiB": 1.0', '"MiB": 1024.0', "-q -x", "memory_total_mib of GPU 0"),
    ("values.py", '"off": "Disabled"', '"off": "Off"', "table", "persistence_mode of GPU 1"),
    ("../_mig/profiles.py", "total = int(match[1]), int(match[3]), int(match[5])", "total = 0, 0, 0", "mig -lgip", ""),
    ("../_mig/profiles.py", '{"Enabled": True, "Disabled": False}', "{}", "csv for MIG", "mig.current of GPU 0"),
    (
        "../_mig/profiles.py",
        "index, uuid, name, memory, current",
        "index, name, uuid, memory, current",
        "csv for MIG",
        "",
    ),
    ("../_mig/profiles.py", "(starts, int(match[4]))", "(starts, 1)", "mig -lgipp", "placements of GPU 0"),
    ("table.py", "name=word(head[2])", 'name=word(head[2][:12] + "...")', "table", "name of GPU 0"),
    ("query.py", '.findtext("fb_memory_usage/total") or', '.findtext("x") or', "-q -x", "mig.devices of GPU 0"),
    ("../_mig/profiles.py", "int(match[4]), int(match[5])", "int(match[3]), int(match[5])", "mig -lgi", "instances"),
    ("../_mig/profiles.py", '"c." not in computes[0]', '"c." in computes[0]', "mig -lci", "whole instances of GPU 0"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, built: Path) -> Machine:
    """A machine with two A100, one of them in MIG mode, and Debian's nvidia-smi."""
    root = tmp_path_factory.mktemp("gpu-check")
    for name in ("lib", "bin"):
        (root / name).mkdir()
    (root / "lib/libnvidia-ml.so.1").symlink_to(built)
    try:
        (root / "bin/nvidia-smi").symlink_to(nvidia_smi.nvidia_smi("trixie"))
    except (DepotError, OSError):
        pytest.skip("Debian's nvidia-smi can't be downloaded here")
    made: Machine = machine(root, root / "lib/libnvidia-ml.so.1", models.A100, 2, DRIVER)
    return made


def run(script: str, collections: Path, *arguments: str, **environment: str) -> str:
    path = f"{collections}:{ROOT / 'tests'}"
    env = {**os.environ, **environment, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], env=env, check=True, stdout=subprocess.PIPE, text=True, timeout=60
    ).stdout


@pytest.fixture(scope="module")
def captured(made: Machine) -> Path:
    """A file with the output of NVML and nvidia-smi. Only the capture needs a process with the simulated library."""
    file: Path = made.root / "captured"
    program = made.root / "bin/nvidia-smi"
    environment = {**made.environment, "LD_LIBRARY_PATH": str(made.library.parent), "LC_ALL": "C"}
    for words in (("-i", "0", "-mig", "1"), ("mig", "-i", "0", "-cgi", "9,14,19", "-C")):
        subprocess.run([program, *words], env={**os.environ, **environment}, check=True, capture_output=True)
    run(CAPTURE, ROOT / "collections", str(program), str(file), **environment)
    return file


def compare(captured: Path, collections: Path) -> tuple[dict[str, int], list[list[str]], list[str]]:
    compared, differences, unavailable = json.loads(run(COMPARE, collections, str(captured), TOPOLOGY))
    return compared, differences, unavailable


def test_all_forms_agree(captured: Path) -> None:
    compared, differences, unavailable = compare(captured, ROOT / "collections")
    assert differences == []
    assert compared == {
        "-L": 8,
        "table": 35,
        "-q": 54,
        "-q -x": 54,
        "csv": 40,
        "topo -m": 7,
        "--version": 3,
        "csv for MIG": 13,
        "mig -lgip": 1,
        "mig -lgipp": 1,
        "mig -lgi": 1,
        "mig -lci": 1,
    }
    assert unavailable == ["mig -lgip: profiles of GPU 1 (nvidia-smi lists none while MIG is off)"]


@pytest.mark.parametrize(("file", "text", "replacement", "form", "field"), EDITS)
def test_a_broken_reader_is_named(
    captured: Path, tmp_path: Path, file: str, text: str, replacement: str, form: str, field: str
) -> None:
    utilities = tmp_path / "ansible_collections/gpulab/kubernetes/plugins/module_utils"
    for name in ("_nvidia_smi", "_mig"):
        shutil.copytree(UTILITIES / name, utilities / name, ignore=shutil.ignore_patterns("__pycache__"))
    for common in UTILITIES.glob("_*.py"):
        shutil.copy2(common, utilities)
    reader = utilities / "_nvidia_smi" / file
    code = reader.read_text()
    assert text in code
    reader.write_text(code.replace(text, replacement))
    _compared, differences, _unavailable = compare(captured, tmp_path)
    assert [where for where, name in differences if where == form and name.startswith(field)], differences


def test_a_failing_nvidia_smi_is_a_difference(captured: Path, tmp_path: Path) -> None:
    before, outputs, after = pickle.loads(captured.read_bytes())
    failed = {name: type(output)("NVIDIA-SMI has failed.\n", 9) for name, output in outputs.items()}
    file = tmp_path / "captured"
    file.write_bytes(pickle.dumps((before, failed, after)))
    _compared, differences, _unavailable = compare(file, ROOT / "collections")
    assert {where for where, name in differences if name == "exit status"} == {
        *("-L", "table", "-q", "-q -x", "csv", "csv for MIG")
    }


def test_a_form_without_compared_values_is_a_difference(captured: Path, tmp_path: Path) -> None:
    """If NVML returned no values, agreement would be meaningless."""
    before, outputs, after = pickle.loads(captured.read_bytes())
    for gpu in (*before.gpus, *after.gpus):
        for name in [name for name in gpu if name not in ("index", "mig.devices")]:
            del gpu[name]
    file = tmp_path / "captured"
    file.write_bytes(pickle.dumps((before, outputs, after)))
    _compared, differences, _unavailable = compare(file, ROOT / "collections")
    assert {where for where, name in differences if name == "number of compared values"} >= {"table", "-q", "csv", "-L"}
