# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a host's GPUs, NVSwitches and NVLink bridges without the driver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .._files import under

PASSED_THROUGH = "vfio-pci"
_NVIDIA, _DISPLAY, _BRIDGE = "0x10de", "0x03", "0x0680"
# Device names from the package pci.ids, which may be missing.
_NAMES = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
_NAME = re.compile(r"^\t([0-9a-f]{4})  (.*)$", re.MULTILINE)
_VENDOR = re.compile(r"^10de .*\n((?:[\t#].*\n)*)", re.MULTILINE)
# 0000:3b:00.0, 3b:00.0, and nvidia-smi's 00000000:3B:00.0
_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_MODEL = re.compile(r"(?:10de:|0x|10de:0x)([0-9a-f]{4})")


def usable(
    gpus: Iterable[Mapping[str, Any]], ignored: Iterable[str]
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the GPUs for Kubernetes, and the others: ``ignored``, or reserved for virtual machines."""
    entries = [str(entry) for entry in ignored]
    found: tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]] = ([], [])
    for gpu in gpus:
        found[gpu.get("driver") == PASSED_THROUGH or any(selects(entry, gpu) for entry in entries)].append(gpu)
    return found


def left_out(root: str, ignored: Iterable[str]) -> set[str]:
    """Return the PCI addresses of excluded GPUs in the kernel's form, including ignored addresses without a device."""
    entries = [str(entry) for entry in ignored]
    found = {str(gpu["address"]) for gpu in usable(gpus(root)[0], entries)[1]}
    return {address for address in (*map(address_of, entries), *found) if address}


def selects(entry: str, gpu: Mapping[str, Any]) -> bool:
    """Return whether an entry of cluster_ignored_gpus matches a GPU by address, PCI ID, or part of its name."""
    wanted = entry.strip().lower()
    address = address_of(wanted)
    if address:
        return address == address_of(str(gpu["address"]))
    model = _MODEL.fullmatch(wanted)
    if model:
        return str(gpu["device_id"]).lower() == f"0x{model[1]}"
    words = " ".join(wanted.removeprefix("nvidia ").split())
    return (
        bool(words)
        and re.search(rf"(?<![a-z0-9]){re.escape(words)}(?![a-z0-9])", str(gpu.get("name", "")).lower()) is not None
    )


def address_of(text: str) -> str:
    """Return a PCI address in the kernel's form, ``0000:3b:00.0``; empty if the text is not an address."""
    match = _ADDRESS.fullmatch(text.strip().lower())
    return f"{int(match[1] or '0', 16):04x}:{match[2]}" if match else ""


def gpus(root: str) -> tuple[list[dict[str, Any]], int]:
    """Return NVIDIA's display devices on the PCI bus and the number of NVSwitches.

    SR-IOV virtual functions, which belong to virtual machines, are skipped. ``console`` marks the GPU that the firmware
    used at boot.
    """
    found: list[dict[str, Any]] = []
    switches = 0
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
                    "console": _first_line(device / "boot_vga") == "1",
                }
            )
    names = _names(root) if found else {}
    return [{**gpu, "name": names.get(gpu["device_id"], "")} for gpu in found], switches


def nvlink_bridges(root: str) -> list[str]:
    """Return the ConnectX devices that manage the NVSwitches of an NVLink 5 system (HGX B200, B300).

    Those NVSwitches are not on the PCI bus. The devices have SW_MNG in their vital product data; NVIDIA's driver
    container uses the same test.
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


def _names(root: str) -> dict[str, str]:
    """Return the names of NVIDIA's devices by ID, such as ``0x1eb8``: "TU104GL [Tesla T4]"."""
    for path in _NAMES:
        try:
            text = under(root, path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        vendor = _VENDOR.search(text)
        return {f"0x{number}": name.strip() for number, name in _NAME.findall(vendor[1])} if vendor else {}
    return {}


def _first_line(path: Path) -> str:
    try:
        return (path.read_text(encoding="utf-8", errors="replace").splitlines() or [""])[0].strip().lower()
    except OSError:
        return ""
