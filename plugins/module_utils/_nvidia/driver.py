# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the host's NVIDIA driver and its origin."""

from __future__ import annotations

import re
from typing import Any

from .._apt.dpkg import Database
from .._files import text_or_nothing, under
from .._host.kernel import loaded_modules
from .kernel_module import parse_modules, parse_version

_DRIVER = re.compile(
    r"(?:cuda-drivers|nvidia-open|nvidia-(?:tesla-|legacy-)?(?:\d+[a-z]*-)?(?:driver|dkms|headless|kernel|utils|smi|"
    r"compute-utils|fabricmanager|modprobe)|nvidia-(?:driver|kernel|headless|fabricmanager)|libnvidia-(?:ml1|compute)|"
    r"linux-modules-nvidia)(?:-.*)?\Z"
)
# Package names that exist only in NVIDIA's repositories, with or without a branch.
_OF_CUDA_REPOSITORY = re.compile(
    r"(?:cuda-drivers|nvidia-open|nvidia-driver-pinning)(?:-\d.*)?\Z|"
    r"(?:nvidia-driver-cuda|nvidia-kernel-open-dkms|nvidia-dkms-open|nvidia-dkms|libnvidia-compute)\Z"
)
# Package names that Ubuntu also uses; Ubuntu's revisions begin with a zero: 580.95.05-0ubuntu0.24.04.1, not -1ubuntu1.
_OF_EITHER = re.compile(r"(?:nvidia-dkms-\d+(?:-open)?|libnvidia-compute-\d+)\Z")
# Programs and settings that are shared by several drivers, or that stay when a driver is removed.
_HELPER = re.compile(r"(?:nvidia-modprobe|nvidia-driver-pinning)(?:-.*)?\Z")
_MODPROBE = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d")
# Written by the role nvidia_driver.
_PROFILING_FILE = "gpulab-profiling.conf"
_OPENED = re.compile(r"^[^#\n]*\bNVreg_RestrictProfilingToAdminUsers=0\b", re.MULTILINE)
_REVISION_OF_NVIDIA = re.compile(r"-[1-9]\d*ubuntu\d+\Z")


def driver_facts(root: str, database: Database) -> dict[str, Any]:
    """Return the loaded driver, the installed driver packages, and their origin."""
    text = text_or_nothing(root, "/proc/driver/nvidia/version")
    packages = {name: database.version(name) or "" for name in database.names() if _DRIVER.match(name)}
    parts = [name for name in packages if not is_helper(name)]
    loaded = parse_version(text)
    if any(_by_nvidia(database, name) for name in parts):
        origin = "cuda_repository"
    elif parts:
        origin = "distribution"
    elif under(root, "/usr/bin/nvidia-uninstall").exists():
        origin = "runfile"
    else:
        origin = "other" if loaded else "none"
    return {
        "loaded_version": loaded,
        "loaded_modules": parse_modules(text),
        "profiling": _profiling(text_or_nothing(root, "/proc/driver/nvidia/params")),
        "profiling_files": _profiling_files(root),
        "packages": packages,
        "origin": origin,
        "nouveau_loaded": "nouveau" in loaded_modules(text_or_nothing(root, "/proc/modules")),
    }


def _profiling(text: str) -> str:
    """Return who may read the performance counters, from the loaded module's parameters; empty if unknown."""
    found = re.search(r"^RmProfilingAdminOnly: *(\d+)", text, re.MULTILINE)
    return "" if not found else "all" if found[1] == "0" else "administrators"


def _profiling_files(root: str) -> list[str]:
    """Return the files, other than this collection's, that let all users read the performance counters."""
    found = ["/proc/cmdline"] if _OPENED.search(text_or_nothing(root, "/proc/cmdline")) else []
    for name in _MODPROBE:
        directory = under(root, name)
        for path in sorted(directory.glob("*.conf")) if directory.is_dir() else ():
            if path.name != _PROFILING_FILE and _OPENED.search(text_or_nothing(root, f"{name}/{path.name}")):
                found.append(f"{name}/{path.name}")
    return found


def is_helper(name: str) -> bool:
    """Return whether a package, such as nvidia-modprobe, does not belong to one particular driver."""
    return bool(_HELPER.match(name))


def _by_nvidia(database: Database, name: str) -> bool:
    package = database.get(name)
    if not package:
        return False
    either = _OF_EITHER.match(name) and _REVISION_OF_NVIDIA.search(package.version)
    return bool(_OF_CUDA_REPOSITORY.match(name) or either or "@nvidia.com" in package.maintainer)
