"""The hardware of a node: a description of its GPUs, and their entries in PCI's sysfs."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from lab import paths
from lab.depot import cache
from lab.gpusim import models

DESCRIPTION = "/etc/gpusim/gpus.json"
PCI_DEVICES = "/sys/bus/pci/devices"

_NVIDIA = 0x10DE
_CLASS = 0x030200
_RESOURCES = 13
_MEMORY_64 = 0x140204
_MEMORY_32 = 0x40200


@dataclass(frozen=True)
class SiliconFiles:
    """Read-only bind mounts of a node: `description` at DESCRIPTION, `pci_devices` over PCI_DEVICES."""

    description: Path
    pci_devices: Path

    @property
    def mounts(self) -> dict[Path, str]:
        """Return the source of each mount with its path in the node."""
        return {self.description: DESCRIPTION, self.pci_devices: PCI_DEVICES}


def silicon(model: str, count: int, node: str, out: Path | None = None) -> SiliconFiles:
    """Write the hardware of a node and return its files; the same arguments give the same files.

    `model` is a key of models.MODELS. With `count` 0 the node has no GPU, which also hides the host's GPUs. `node`
    determines the identity of the GPUs, and should be unique if they must be distinguishable. Without `out`, the files
    are in the lab's cache. Raises ValueError for an unknown model or a count out of range.
    """
    if count and model not in models.MODELS:
        raise ValueError(f"Error while making the GPUs of {node}: {model} is not simulated, {_known()} are.")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", node):
        raise ValueError(f"Error while making the GPUs of {node!r}: this is no host name.")
    chosen = models.MODELS.get(model, models.T4)
    described = models.describe(chosen, count, node)
    directory = out or paths.cache_root() / "silicon" / f"{node}-{count}x{chosen.key if count else 'none'}"
    files = SiliconFiles(directory / "gpus.json", directory / "pci")
    cache.replace_text(files.description, render(described))
    wanted = {str(gpu["bus_id"]): _entry(chosen, int(gpu["numa_node"])) for gpu in described}
    files.pci_devices.mkdir(parents=True, exist_ok=True)
    for former in files.pci_devices.iterdir():
        if former.name not in wanted:
            cache.remove(former)
    for address, entry in wanted.items():
        for name, content in {**entry, "uevent": _uevent(chosen, address)}.items():
            cache.replace_text(files.pci_devices / address / name, content)
    return files


def render(described: list[dict[str, models.Value]]) -> str:
    """Return the description as JSON with one GPU per line."""
    lines = ",\n".join(f"  {json.dumps(gpu)}" for gpu in described)
    return '{"gpus": [\n' + (f"{lines}\n" if lines else "") + "]}\n"


def _known() -> str:
    return ", ".join(sorted(models.MODELS))


def _modalias(model: models.Model) -> str:
    return (
        f"pci:v{_NVIDIA:08X}d{model.device_id:08X}sv{_NVIDIA:08X}sd{model.subsystem_id:08X}"
        f"bc{_CLASS >> 16:02X}sc{_CLASS >> 8 & 0xFF:02X}i{_CLASS & 0xFF:02X}"
    )


def _uevent(model: models.Model, address: str) -> str:
    return (
        f"PCI_CLASS={_CLASS:X}\nPCI_ID={_NVIDIA:04X}:{model.device_id:04X}\n"
        f"PCI_SUBSYS_ID={_NVIDIA:04X}:{model.subsystem_id:04X}\nPCI_SLOT_NAME={address}\nMODALIAS={_modalias(model)}\n"
    )


def _entry(model: models.Model, numa_node: int) -> dict[str, str | bytes]:
    return {
        "vendor": f"0x{_NVIDIA:04x}\n",
        "device": f"0x{model.device_id:04x}\n",
        "subsystem_vendor": f"0x{_NVIDIA:04x}\n",
        "subsystem_device": f"0x{model.subsystem_id:04x}\n",
        "class": f"0x{_CLASS:06x}\n",
        "revision": f"0x{model.revision:02x}\n",
        "numa_node": f"{numa_node}\n",
        "enable": "1\n",
        "irq": "0\n",
        "modalias": f"{_modalias(model)}\n",
        "config": _configuration(model),
        "resource": _resources(model),
    }


def _configuration(model: models.Model) -> bytes:
    """Return the 256 bytes of PCI configuration space from which lspci and NVIDIA's tools read IDs and class."""
    start = struct.pack(
        "<HHHHBBBB", _NVIDIA, model.device_id, 0x0407, 0x0010, model.revision, *_CLASS.to_bytes(3, "little")
    )
    header = start.ljust(0x2C, b"\0") + struct.pack("<HH", _NVIDIA, model.subsystem_id)
    return header.ljust(256, b"\0")


def _resources(model: models.Model) -> str:
    """Return lines of start, end and flags per base address register, as in sysfs."""
    lines = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * _RESOURCES
    start = 0x4000000000
    for register, size in zip((0, 1, 3), model.bars_mib, strict=True):
        length = size << 20
        start = -(-start // length) * length
        flags = _MEMORY_64 if register else _MEMORY_32
        lines[register] = f"0x{start:016x} 0x{start + length - 1:016x} 0x{flags:016x}"
        start += length
    return "\n".join(lines) + "\n"
