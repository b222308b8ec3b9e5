# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs of a host, their NVSwitches and the driver that is there. Reads files only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .._apt.dpkg import Database
from .._host.kernel import loaded_modules
from .._hostfiles import text_or_nothing, under
from .kernel_module import parse_version

_NVIDIA, _DISPLAY, _BRIDGE = "0x10de", "0x03", "0x0680"
# Packages that make up a driver, of NVIDIA's repository, Ubuntu and Debian alike.
_DRIVER = re.compile(
    r"(?:cuda-drivers|nvidia-open|nvidia-(?:tesla-|legacy-)?(?:\d+[a-z]*-)?(?:driver|dkms|headless|kernel|utils|smi|"
    r"compute-utils|fabricmanager|modprobe)|nvidia-(?:driver|kernel|headless|fabricmanager)|libnvidia-(?:ml1|compute)|"
    r"linux-modules-nvidia)(?:-.*)?\Z"
)
# Names that only NVIDIA's repositories have, with a branch or without.
_OF_CUDA_REPOSITORY = re.compile(
    r"(?:cuda-drivers|nvidia-open|nvidia-driver-pinning)(?:-\d.*)?\Z|"
    r"(?:nvidia-driver-cuda|nvidia-kernel-open-dkms|nvidia-dkms-open|nvidia-dkms|libnvidia-compute)\Z"
)
# Names that Ubuntu has, too, whose own revisions begin with a zero: 580.95.05-0ubuntu0.24.04.1, not -1ubuntu1.
_OF_EITHER = re.compile(r"(?:nvidia-dkms-\d+(?:-open)?|libnvidia-compute-\d+)\Z")
_REVISION_OF_NVIDIA = re.compile(r"-[1-9]\d*ubuntu\d+\Z")


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


def nvidia_driver(root: str, database: Database) -> dict[str, Any]:
    """The driver that is there, and whose it is."""
    text = text_or_nothing(root, "/proc/driver/nvidia/version")
    packages = {name: database.version(name) or "" for name in database.names() if _DRIVER.match(name)}
    loaded = parse_version(text)
    if any(_by_nvidia(database, name) for name in packages):
        origin = "cuda_repository"
    elif packages:
        origin = "distribution"
    elif under(root, "/usr/bin/nvidia-uninstall").exists():
        origin = "runfile"
    else:
        origin = "other" if loaded else "none"
    return {
        "loaded_version": loaded,
        "loaded_modules": "" if not loaded else "open" if "Open Kernel Module" in text else "proprietary",
        "packages": packages,
        "origin": origin,
        "nouveau_loaded": "nouveau" in loaded_modules(text_or_nothing(root, "/proc/modules")),
    }


def _by_nvidia(database: Database, name: str) -> bool:
    package = database.get(name)
    if not package:
        return False
    either = _OF_EITHER.match(name) and _REVISION_OF_NVIDIA.search(package.version)
    return bool(_OF_CUDA_REPOSITORY.match(name) or either or "@nvidia.com" in package.maintainer)


def _first_line(path: Path) -> str:
    try:
        return (path.read_text(encoding="utf-8", errors="replace").splitlines() or [""])[0].strip()
    except OSError:
        return ""
