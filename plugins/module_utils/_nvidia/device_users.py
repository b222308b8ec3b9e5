# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the users of the NVIDIA driver: processes with an open device node, their units and pods."""

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
    """A process; ``unit`` is its systemd service, empty for pods and logins; ``pod`` is NAMESPACE/NAME or the uid."""

    pid: int
    name: str
    unit: str = ""
    pod: str = ""
    devices: list[str] = field(default_factory=list)


def unit_of_cgroup(text: str) -> str:
    """Return the innermost systemd service of a ``/proc/PID/cgroup``, empty for processes of pods and logins."""
    if pods_of_cgroup(text):
        return ""
    # cgroup v2 has one line; in cgroup v1, systemd's own hierarchy is used.
    paths = [line.split(":", 2)[2] for line in text.splitlines() if line.startswith(("0::", "1:name=systemd:"))]
    paths = paths or [line.split(":", 2)[2] for line in text.splitlines() if ":name=systemd:" in line]
    found = [unit for path in paths for unit in _UNIT.findall(path)]
    return "" if not found or found[-1].startswith("user@") else found[-1]


def driver_devices(links: Iterable[str]) -> list[str]:
    """Return the driver's device nodes among the targets of ``/proc/PID/fd``."""
    return sorted({match.group(0) for match in map(_DEVICE.match, links) if match})


def driver_users(proc: Path, names: Mapping[str, tuple[str, str]]) -> list[User]:
    """Return the driver's users by process id, without processes that have exited. ``names`` are the pods' by uid."""
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
