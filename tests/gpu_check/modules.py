"""Run the collection's modules through Ansible, and compare their results with NVML, /proc and /sys."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_check.cdi_names import devices, expected_devices
from gpu_check.environment import is_standard
from gpu_check.forms import compare_gpus, compare_topology
from gpu_check.machine import Machine, node_problem
from gpu_check.nvml import Facts
from gpu_check.process import run
from gpu_check.result import NotRunError, Part, in_mig_mode, last_line

_TIMEOUT = 60
# Minimum number of values that are compared per module, or reported as unavailable on this machine.
_MINIMUM = {"nvidia_smi_info": 14, "gpu_host_info": 3, "preflight_info": 4}
_COMPARED = {
    "nvidia_smi_info": ("state", "message", "driver_version", "cuda_version", "count", "gpus", "topology"),
    "gpu_host_info": ("pci", "driver"),
    "preflight_info": ("gpus", "nvidia_driver"),
    "nvidia_cdi_spec": ("devices", "actions"),
}
_MODULES: dict[str, dict[str, Any]] = {
    "nvidia_smi_info": {"gather": ["gpus", "mig", "processes", "topology"]},
    "gpu_host_info": {"nvidia_smi": {}},
    "preflight_info": {},
}


def results(
    environment: Mapping[str, str], work: Path, facts: Facts, specification: Path | None, part: Part, timeout: float
) -> dict[str, Any]:
    """Run the modules in check mode and return the result of each.

    ``specification`` is a CDI specification to check, or None to omit it. Modules that need a missing program are
    omitted and named in ``part``. Raises NotRunError if Ansible fails.
    """
    arguments = dict(_MODULES)
    for module, program in (("nvidia_smi_info", "nvidia-smi"), ("preflight_info", "ip")):
        if not shutil.which(program, path=environment["PATH"]):
            part.unavailable.append(f"{module} (there is no program {program})")
            del arguments[module]
    if specification:
        arguments["nvidia_cdi_spec"] = {
            "count": len(facts.gpus),
            "uuids": [gpu["uuid"] for gpu in facts.gpus if not in_mig_mode(gpu)],
            "driver_version": facts.driver_version,
            "path": str(specification),
        }
    file = work / "modules.json"
    tasks: list[dict[str, Any]] = [
        {
            "name": f"Run {name}",
            f"gpulab.kubernetes.{name}": parameters,
            "register": f"result_{name}",
            "check_mode": True,
            # A module that fails counts as a difference and does not end the play.
            "ignore_errors": True,
        }
        for name, parameters in arguments.items()
    ]
    known = "{{ {" + ", ".join(f"'{name}': result_{name}" for name in arguments) + "} | to_json }}"
    tasks.append({"name": "Write the results", "ansible.builtin.copy": {"content": known, "dest": str(file)}})
    # JSON is valid YAML.
    (work / "modules.yml").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    inventory = f"localhost ansible_connection=local ansible_python_interpreter={sys.executable}\n"
    (work / "modules.ini").write_text(inventory)
    command = [sys.executable, "-m", "ansible", "playbook", "-i", str(work / "modules.ini"), str(work / "modules.yml")]
    done = run(command, environment, min(_TIMEOUT, timeout))
    (work / "raw" / "ansible.txt").write_text(done.stdout + done.stderr)
    if not file.is_file():
        raise NotRunError(f"Ansible ended with {done.returncode}: {last_line(done.stderr or done.stdout)}")
    # Keep only what is compared: the modules read much more about the host.
    returned = json.loads(file.read_text())
    return {
        name: {key: value for key, value in result.items() if key in ("failed", "msg", *_COMPARED[name])}
        for name, result in returned.items()
    }


def compare(
    part: Part,
    found: Mapping[str, Any],
    before: Facts,
    after: Facts,
    machine: Machine,
    library: tuple[str, str],
    has_topology: bool,
) -> None:
    """Compare the modules' ``results``, and note differences in ``part``.

    ``library`` is the path and version of the loaded NVML library; ``has_topology`` tells whether nvidia-smi could read
    how the GPUs are connected.
    """
    for name, result in found.items():
        if result.get("failed"):
            part.differ(name, "result", str(result.get("msg", "")).strip()[:500], "no failure")
    usable = {name: result for name, result in found.items() if not result.get("failed")}
    if info := usable.get("nvidia_smi_info"):
        _compare_info(part, info, before, after, machine)
        if has_topology:
            compare_topology(part, "nvidia_smi_info", info["topology"], before)
    if host := usable.get("gpu_host_info"):
        _compare_host(part, host, machine, library)
    if preflight := usable.get("preflight_info"):
        _compare_preflight(part, preflight, machine)
    if specification := usable.get("nvidia_cdi_spec"):
        part.compare("nvidia_cdi_spec", "devices", devices(specification["devices"]), expected_devices(before))
        start = [action for action in specification["actions"] if action.startswith("start ")]
        part.compare("nvidia_cdi_spec", "actions", start, [])
    for name, least in _MINIMUM.items():
        named = sum(text.startswith(f"{name}: ") for text in part.unavailable)
        if name in usable and part.compared.get(name, 0) + named < least:
            part.differ(name, "number of compared values", part.compared.get(name, 0), f"at least {least - named}")


def _compare_info(part: Part, info: Mapping[str, Any], before: Facts, after: Facts, machine: Machine) -> None:
    where = "nvidia_smi_info"
    if all(gpu.get("problems") == [] for gpu in before.gpus):
        part.compare(where, "state", info["state"], "ok")
    compare_gpus(part, where, info, before, after)
    for gpu, reference in zip(info["gpus"], before.gpus, strict=False):
        if reference.get("problems") == []:
            part.compare(where, f"healthy of GPU {gpu['index']}", gpu["healthy"], True)
    for gpu in info["gpus"]:
        address, minor = _sysfs_address(gpu["pci_bus_id"]), gpu["minor_number"]
        if address in machine.minors:
            part.compare(where, f"minor_number of GPU {gpu['index']}", minor, machine.minors[address])
            problem = node_problem(machine.minors[address], machine.major)
            part.compare(where, f"device node of GPU {gpu['index']}", problem, "")
        else:
            part.unavailable.append(f"{where}: device minor of GPU {gpu['index']} (/proc/driver/nvidia/gpus)")


def _compare_host(part: Part, host: Mapping[str, Any], machine: Machine, library: tuple[str, str]) -> None:
    where = "gpu_host_info"
    if machine.pci is None:
        part.unavailable.append(f"{where}: pci (/sys/bus/pci/devices)")
    else:
        found = [(gpu["address"], gpu["device_id"]) for gpu in host["pci"]]
        part.compare(where, "pci", found, [(name, device[0]) for name, device in machine.pci.items()])
    if machine.loaded:
        part.compare(where, "driver.loaded", host["driver"]["loaded"], machine.loaded)
    else:
        part.unavailable.append(f"{where}: driver.loaded (/proc/driver/nvidia/version)")
    if library[1] and is_standard(library[0]):
        part.compare(where, "driver.library", host["driver"]["library"], library[1])
    else:
        part.unavailable.append(f"{where}: driver.library (the driver's root is not /: {library[0] or 'unknown'})")


def _compare_preflight(part: Part, preflight: Mapping[str, Any], machine: Machine) -> None:
    where = "preflight_info"
    if machine.pci is None:
        part.unavailable.append(f"{where}: gpus (/sys/bus/pci/devices)")
    else:
        found = {gpu["address"]: (gpu["device_id"], gpu["class"], gpu["driver"]) for gpu in preflight["gpus"]}
        part.compare(where, "gpus", found, machine.pci)
    driver = preflight["nvidia_driver"]
    if machine.loaded:
        part.compare(where, "nvidia_driver.loaded_version", driver["loaded_version"], machine.loaded)
        part.compare(where, "nvidia_driver.loaded_modules", driver["loaded_modules"], machine.kind)
    else:
        part.unavailable.append(f"{where}: nvidia_driver.loaded_version (/proc/driver/nvidia/version)")
    if machine.nouveau is not None:
        part.compare(where, "nvidia_driver.nouveau_loaded", driver["nouveau_loaded"], machine.nouveau)
    else:
        part.unavailable.append(f"{where}: nvidia_driver.nouveau_loaded (/proc/modules)")
    origins = _origins(machine)
    if origins:
        part.check(where, "nvidia_driver.origin", driver["origin"] in origins, driver["origin"], origins)
    else:
        part.unavailable.append(f"{where}: nvidia_driver.origin (neither dpkg nor apt has it)")


def _origins(machine: Machine) -> Sequence[str]:
    """Return the origins that are consistent with what dpkg and apt report about the NVML library."""
    if machine.origin is None:
        return ()
    if machine.origin:
        return ("cuda_repository",) if machine.origin == "nvidia" else ("distribution",)
    return ("runfile",) if machine.uninstaller else ("other", "runfile") if machine.loaded else ("other", "none")


def _sysfs_address(bus_id: str | None) -> str:
    """Return a PCI address in Linux's form: a domain of four digits, in lower case."""
    domain, _colon, rest = (bus_id or "").partition(":")
    return f"{domain[-4:]}:{rest}".lower()
