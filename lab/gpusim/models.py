"""The simulated GPU models, with the values that real boards show in nvidia-smi -q."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

Value = str | int | bool

# A fixed namespace, so that a node's GPUs keep their UUIDs from one lab to the next.
_IDENTITIES = uuid.UUID("6a6f0c1e-7d0b-4f5a-9d6b-0f6c1a52d0aa")

# Bus numbers of an eight-GPU board, twice, as on real machines.
_SLOTS = ("17", "31", "4b", "65", "b1", "ca", "e3", "f2", "1b", "35", "4f", "69", "b5", "ce", "e7", "f6")


@dataclass(frozen=True)
class Model:
    """A GPU model: its PCI properties and its driver's values."""

    key: str
    device_id: int
    subsystem_id: int
    revision: int
    bars_mib: tuple[int, int, int]
    report: Mapping[str, Value]


T4 = Model(
    key="t4",
    device_id=0x1EB8,
    subsystem_id=0x12A2,
    revision=0xA1,
    bars_mib=(16, 256, 32),
    report={
        "name": "Tesla T4",
        "architecture": 6,
        "brand": 14,
        "compute_major": 7,
        "compute_minor": 5,
        "mig_capable": False,
        "cores": 2560,
        "memory_bus_width": 256,
        "memory_total_mib": 15360,
        "memory_reserved_mib": 448,
        "bar1_total_mib": 256,
        "bar1_used_mib": 2,
        "power_usage_mw": 9500,
        "power_limit_mw": 70000,
        "power_min_mw": 60000,
        "power_max_mw": 70000,
        "temperature": 33,
        "temperature_shutdown": 96,
        "temperature_slowdown": 93,
        "temperature_max": 85,
        "memory_temperature": 0,
        "memory_temperature_max": 0,
        "clock_graphics": 300,
        "clock_memory": 405,
        "clock_video": 540,
        "clock_graphics_max": 1590,
        "clock_memory_max": 5001,
        "clock_video_max": 1470,
        "pcie_generation": 3,
        "pcie_width": 16,
        "row_remapping": False,
        "vbios": "90.04.96.00.02",
        "board_part_number": "900-2G183-A800-001",
        "inforom_image": "G183.0200.00.02",
        "inforom_oem": "1.1",
        "inforom_ecc": "5.0",
    },
)

A100 = Model(
    key="a100",
    device_id=0x20B0,
    subsystem_id=0x134F,
    revision=0xA1,
    bars_mib=(16, 65536, 32),
    report={
        "name": "NVIDIA A100-SXM4-40GB",
        "architecture": 7,
        "brand": 14,
        "compute_major": 8,
        "compute_minor": 0,
        "mig_capable": True,
        "cores": 6912,
        "memory_bus_width": 5120,
        "memory_total_mib": 40960,
        "memory_reserved_mib": 518,
        "bar1_total_mib": 65536,
        "bar1_used_mib": 1,
        "power_usage_mw": 49680,
        "power_limit_mw": 400000,
        "power_min_mw": 100000,
        "power_max_mw": 400000,
        "temperature": 33,
        "temperature_shutdown": 92,
        "temperature_slowdown": 89,
        "temperature_max": 85,
        "memory_temperature": 34,
        "memory_temperature_max": 95,
        "clock_graphics": 210,
        "clock_memory": 1215,
        "clock_video": 585,
        "clock_graphics_max": 1410,
        "clock_memory_max": 1215,
        "clock_video_max": 1290,
        "pcie_generation": 4,
        "pcie_width": 16,
        "row_remapping": True,
        "vbios": "92.00.45.00.03",
        "board_part_number": "692-2G506-0200-003",
        "inforom_image": "G506.0200.00.04",
        "inforom_oem": "2.0",
        "inforom_ecc": "6.16",
    },
)

MODELS = {model.key: model for model in (T4, A100)}


def numa_node(index: int, count: int) -> int:
    """Return the NUMA node: the first half of the GPUs is at one socket, the second half at the other."""
    return 0 if index < (count + 1) // 2 else 1


def describe(model: Model, count: int, node: str) -> list[dict[str, Value]]:
    """Return one description per GPU, whose identity only depends on the node's name and the GPU's index."""
    if not 0 <= count <= len(_SLOTS):
        raise ValueError(f"Error while describing {count} GPUs of {node}: the lab simulates 0 to {len(_SLOTS)} GPUs.")
    return [
        {
            "minor": index,
            "uuid": f"GPU-{uuid.uuid5(_IDENTITIES, f'{node}/{index}')}",
            "serial": _serial(node, index),
            "bus_id": f"0000:{_SLOTS[index]}:00.0",
            "pci_device_id": f"0x{model.device_id:04x}",
            "pci_subsystem_id": f"0x{model.subsystem_id:04x}",
            "numa_node": numa_node(index, count),
            **model.report,
        }
        for index in range(count)
    ]


def _serial(node: str, index: int) -> str:
    digest = hashlib.sha256(f"{node}/{index}".encode()).digest()
    return str(1_320_000_000_000 + int.from_bytes(digest[:5], "big") % 1_000_000_000)
