# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a GPU host has: packages and their holds, the driver's module and library, kernels."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .._apt.dpkg import Database, read_database
from .._files import read_text, under
from .._host.swap_origins import blamed, origins
from .._host.swap_state import active_swaps
from .._versions import compare_versions
from .kernel_module import parse_version

_LIBRARY = re.compile(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)\Z")
_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/x86_64-linux-gnu/nvidia/current")
_OF_DRIVER = re.compile(r"(?:\d+:)?\d{3}\.\d+(?:\.\d+)?[-+~]")
_NAMES_OF_DRIVER = re.compile(r"(?:lib)?nvidia-|cuda-drivers|firmware-nvidia-|libcuda1\Z")
_MODULE = re.compile(r"/nvidia(?:-current)?(?:-open)?\.ko", re.MULTILINE)
Packages = Mapping[str, Mapping[str, Any]]


def packages(database: Database, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return version and hold of the installed packages among ``names``."""
    found = {name: database.get(name) for name in names}
    return {name: {"version": one.version, "held": one.held} for name, one in found.items() if one and one.installed}


def driver_packages(database: Database) -> dict[str, dict[str, Any]]:
    """Return the driver's packages, by their names and versions such as 580.178.04-1."""
    names = [
        name
        for name in database.names()
        if _NAMES_OF_DRIVER.match(name) and _OF_DRIVER.match(database.version(name) or "")
    ]
    return packages(database, names)


def library(root: str) -> str:
    """Return the version of NVML that programs load (the target of libnvidia-ml.so.1), empty if there is none."""
    for directory in _LIBRARIES:
        link = under(root, f"{directory}/libnvidia-ml.so.1")
        if link.is_symlink():
            match = _LIBRARY.search(str(link.readlink()))
            if match:
                return match.group(1)
    return ""


def kernels(root: str, running: str) -> dict[str, Any]:
    """Return the running and the newest kernel, and whether the newest, which boots next, has a driver and headers."""
    boot = under(root, "/boot")
    prefix = "vmlinuz-"
    releases = [file.name[len(prefix) :] for file in boot.glob(f"{prefix}*")] if boot.is_dir() else []
    newest = max(releases, key=functools.cmp_to_key(compare_versions), default=running)
    modules = read_text(under(root, f"/lib/modules/{newest}/modules.dep")) or ""
    return {
        "running": running,
        "newest": newest,
        "newest_has_driver": bool(_MODULE.search(modules)),
        "newest_has_headers": under(root, f"/lib/modules/{newest}/build").exists(),
    }


def swap(root: str) -> list[dict[str, str]]:
    """Return the active swap areas and what enables each; the name is empty for an area that the next boot enables."""
    known = origins(root)
    areas = [area.name for area in active_swaps(read_text(under(root, "/proc/swaps")) or "")]
    found = [{"name": name, "origin": blamed(name, known)} for name in areas]
    later = ", ".join(str(origin) for origin in known if origin.at_boot)
    return found or ([{"name": "", "origin": later}] if later else [])


def read(root: str, names: Sequence[str], running: str) -> dict[str, Any]:
    """Return packages, driver, kernel and swap for the module gpu_host_info."""
    database = read_database(under(root, "/var/lib/dpkg"))
    return {
        "packages": packages(database, names),
        "driver": {
            "loaded": parse_version(read_text(under(root, "/proc/driver/nvidia/version")) or ""),
            "library": library(root),
            "packages": driver_packages(database),
        },
        "kernel": kernels(root, running),
        "swap": swap(root),
    }
