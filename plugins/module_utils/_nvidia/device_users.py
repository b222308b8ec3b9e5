# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses the NVIDIA driver right now: processes with one of its device nodes open, their units and their pods."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .kubelet_devices import pods_of_cgroup

_DEVICE = re.compile(r"/dev/nvidia(?:\d+|ctl|-uvm|-uvm-tools|-modeset|-caps/\S+|-nvswitch\S*)(?= \(deleted\)|\Z)")
_UNIT = re.compile(r"[^/]+\.service(?=/|\Z)")


@dataclass
class User:
    """``unit`` is a systemd service, empty for processes of pods and logins; ``pod`` is NAMESPACE/NAME or the uid."""

    pid: int
    name: str
    unit: str = ""
    pod: str = ""
    devices: list[str] = field(default_factory=list)


def unit_of_cgroup(text: str) -> str:
    """The innermost systemd service in a ``/proc/PID/cgroup``, empty for a pod's process and for a login's."""
    if pods_of_cgroup(text):
        return ""
    # cgroup v2 has one line; of v1 the line of systemd's own hierarchy counts.
    paths = [line.split(":", 2)[2] for line in text.splitlines() if line.startswith(("0::", "1:name=systemd:"))]
    paths = paths or [line.split(":", 2)[2] for line in text.splitlines() if ":name=systemd:" in line]
    found = [unit for path in paths for unit in _UNIT.findall(path)]
    return "" if not found or found[-1].startswith("user@") else found[-1]


def driver_devices(links: Iterable[str]) -> list[str]:
    """The driver's device nodes among the targets of ``/proc/PID/fd``."""
    return sorted({match.group(0) for match in map(_DEVICE.match, links) if match})


def driver_users(proc: Path, names: Mapping[str, tuple[str, str]]) -> list[User]:
    """By process id; processes that end meanwhile are left out. ``names`` are those of pods by uid."""
    found = []
    for entry in sorted((entry for entry in proc.iterdir() if entry.name.isdigit()), key=lambda entry: int(entry.name)):
        with contextlib.suppress(OSError):
            devices = driver_devices(_links(entry / "fd"))
            if devices:
                cgroup = (entry / "cgroup").read_text(errors="replace")
                uids = sorted(pods_of_cgroup(cgroup))
                pod = "/".join(names.get(uids[0], (uids[0],))) if uids else ""
                name = (entry / "comm").read_text(errors="replace").strip()
                found.append(User(int(entry.name), name, unit_of_cgroup(cgroup), pod, devices))
    return found


def _links(directory: Path) -> Iterable[str]:
    for link in directory.iterdir():
        with contextlib.suppress(OSError):
            yield str(link.readlink())
