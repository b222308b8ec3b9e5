# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of a host, its NVSwitches and NVLink bridges, without the driver."""

from __future__ import annotations

from pathlib import Path

from .._files import under

_NVIDIA, _DISPLAY, _BRIDGE = "0x10de", "0x03", "0x0680"


def gpus(root: str) -> tuple[list[dict[str, str]], int]:
    """NVIDIA's display devices on the PCI bus, and the number of its NVSwitches.

    A function of SR-IOV is a part of a GPU that is given to a virtual machine, and no GPU.
    """
    found, switches = [], 0
    directory = under(root, "/sys/bus/pci/devices")
    for device in sorted(directory.iterdir()) if directory.is_dir() else ():
        if _first_line(device / "vendor") != _NVIDIA or (device / "physfn").is_symlink():
            continue
        kind, driver = _first_line(device / "class"), device / "driver"
        switches += kind.startswith(_BRIDGE)
        if kind.startswith(_DISPLAY):
            found.append(
                {
                    "address": device.name,
                    "device_id": _first_line(device / "device"),
                    "class": kind,
                    "driver": driver.readlink().name if driver.is_symlink() else "",
                }
            )
    return found, switches


def nvlink_bridges(root: str) -> list[str]:
    """ConnectX devices that manage the NVSwitches of an NVLink 5 system (HGX B200, B300), which are not on PCI.

    They name themselves SW_MNG in their vital product data, as NVIDIA's driver container looks for it.
    """
    directory = under(root, "/sys/class/infiniband")
    found = []
    for device in sorted(directory.iterdir()) if directory.is_dir() else ():
        try:
            data = (device / "device/vpd").read_bytes()
        except OSError:
            continue
        if b"SW_MNG" in data:
            found.append(device.name)
    return found


def _first_line(path: Path) -> str:
    try:
        return (path.read_text(encoding="utf-8", errors="replace").splitlines() or [""])[0].strip().lower()
    except OSError:
        return ""
