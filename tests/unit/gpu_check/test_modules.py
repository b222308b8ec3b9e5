"""gpu-check's comparison of module results with the machine; differences are reported by module and field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gpu_check import modules
from gpu_check.machine import Machine
from gpu_check.nvml import Facts
from gpu_check.result import Part

ADDRESS, BUS_ID = "0000:17:00.0", "00000000:17:00.0"
DEVICE = ("0x2330", "0x030200", "nvidia")
LIBRARY = ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.178.04", "580.178.04")
GPU = {
    "index": 0,
    "minor_number": 0,
    "uuid": "GPU-1",
    "name": "NVIDIA H100 80GB HBM3",
    "pci_bus_id": BUS_ID,
    "memory_total_mib": 81559,
    "memory_used_mib": 4,
    "compute_mode": "Default",
    "persistence_mode": "Enabled",
    "temperature_c": 30,
    "power_draw_w": 70.0,
    "power_limit_w": 700.0,
    "utilization_gpu_pct": 0,
    "processes": [],
    "problems": [],
}
FACTS = Facts("580.178.04", "13.0", gpus=[{**GPU, "mig.capable": False, "mig.devices": []}])


def machine() -> Machine:
    return Machine({ADDRESS: DEVICE}, {}, "580.178.04", "open", False, "nvidia")


def results() -> dict[str, Any]:
    none: dict[str, Any] = {"capable": False, "current": None, "pending": None, "devices": []}
    return {
        "nvidia_smi_info": {
            "state": "ok",
            "driver_version": "580.178.04",
            "cuda_version": "13.0",
            "count": 1,
            "topology": None,
            "gpus": [{**GPU, "mig": none, "healthy": True}],
        },
        "gpu_host_info": {
            "pci": [{"address": ADDRESS, "device_id": DEVICE[0]}],
            "driver": {"loaded": "580.178.04", "library": "580.178.04"},
        },
        "preflight_info": {
            "gpus": [{"address": ADDRESS, "device_id": DEVICE[0], "class": DEVICE[1], "driver": DEVICE[2]}],
            "nvidia_driver": {
                "loaded_version": "580.178.04",
                "loaded_modules": "open",
                "origin": "cuda_repository",
                "nouveau_loaded": False,
            },
        },
        "nvidia_cdi_spec": {"devices": ["0", "GPU-1", "all"], "actions": []},
    }


def compare(found: dict[str, Any], seen: Machine) -> Part:
    part = Part("modules")
    modules.compare(part, found, FACTS, FACTS, seen, LIBRARY, has_topology=False)
    return part


def test_matching_results_have_no_differences() -> None:
    part = compare(results(), machine())
    assert part.differences == []
    assert part.compared == {"nvidia_smi_info": 21, "gpu_host_info": 3, "preflight_info": 5, "nvidia_cdi_spec": 2}
    assert part.unavailable == ["nvidia_smi_info: device minor of GPU 0 (/proc/driver/nvidia/gpus)"]


@pytest.mark.parametrize(
    ("edit", "module", "field"),
    [
        (lambda r: r["nvidia_smi_info"].update(state="degraded"), "nvidia_smi_info", "state"),
        (lambda r: r["nvidia_smi_info"].update(count=2), "nvidia_smi_info", "count"),
        (lambda r: r["nvidia_smi_info"]["gpus"][0].update(name=None), "nvidia_smi_info", "name of GPU 0"),
        (lambda r: r["nvidia_smi_info"]["gpus"][0].update(healthy=False), "nvidia_smi_info", "healthy of GPU 0"),
        (lambda r: r["gpu_host_info"].update(pci=[]), "gpu_host_info", "pci"),
        (lambda r: r["gpu_host_info"]["driver"].update(loaded=""), "gpu_host_info", "driver.loaded"),
        (lambda r: r["gpu_host_info"]["driver"].update(library="1.2"), "gpu_host_info", "driver.library"),
        (lambda r: r["preflight_info"]["gpus"][0].update(driver=""), "preflight_info", "gpus"),
        (
            lambda r: r["preflight_info"]["nvidia_driver"].update(loaded_modules="proprietary"),
            "preflight_info",
            "nvidia_driver.loaded_modules",
        ),
        (
            lambda r: r["preflight_info"]["nvidia_driver"].update(origin="runfile"),
            "preflight_info",
            "nvidia_driver.origin",
        ),
        (
            lambda r: r["preflight_info"]["nvidia_driver"].update(nouveau_loaded=True),
            "preflight_info",
            "nvidia_driver.nouveau_loaded",
        ),
        (lambda r: r["nvidia_cdi_spec"].update(devices=["all"]), "nvidia_cdi_spec", "devices"),
        (lambda r: r["nvidia_cdi_spec"].update(actions=["start x"]), "nvidia_cdi_spec", "actions"),
        (lambda r: r.update(preflight_info={"failed": True, "msg": "no"}), "preflight_info", "result"),
    ],
)
def test_wrong_value_is_named_with_its_module(edit: Callable[[dict[str, Any]], Any], module: str, field: str) -> None:
    found = results()
    edit(found)
    assert [(each.where, each.field) for each in compare(found, machine()).differences] == [(module, field)]


def test_values_that_the_machine_does_not_provide_are_not_compared() -> None:
    part = compare(results(), Machine(origin=None))
    assert part.differences == []
    assert len(part.unavailable) == 7


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Machine(origin="nvidia"), ("cuda_repository",)),
        (Machine(origin="distribution"), ("distribution",)),
        (Machine(origin="", uninstaller=True), ("runfile",)),
        (Machine(origin="", loaded="580.178.04"), ("other", "runfile")),
        (Machine(origin=None), ()),
    ],
)
def test_machine_determines_which_driver_origins_are_accepted(seen: Machine, expected: tuple[str, ...]) -> None:
    assert modules._origins(seen) == expected
