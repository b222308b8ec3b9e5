# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a host's system, memory, disks and name servers."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from .._apt.cli import known_packages
from .._apt.dpkg import Database, native_architecture
from .._command import Runner
from .._containerd.files import imported_files
from .._errors import DomainError
from .._files import read_text, text_or_nothing, under
from .._systemd import is_active
from .kernel import builtin_modules, loaded_modules, traces
from .kernel_packages import read as read_kernel_packages
from .swap_origins import blamed, origins
from .swap_state import active_swaps

_NAMES = {"debian": "Debian", "ubuntu": "Ubuntu"}
_EFI_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_RESOLV_CONF = ("/run/systemd/resolve/resolv.conf", "/etc/resolv.conf")
_INOTIFY = ("max_user_instances", "max_user_watches")
_UNITS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/usr/local/lib/systemd/system")
# Files that only an installation has; directories may remain after uninstalling.
_DISTRIBUTIONS = {
    **{
        name: tuple(f"{directory}/{unit}.service" for directory in _UNITS for unit in units)
        for name, units in {
            "k3s": ("k3s", "k3s-agent"),
            "rke2": ("rke2-server", "rke2-agent"),
            "k0s": ("k0scontroller", "k0sworker"),
        }.items()
    },
    "microk8s": ("/snap/microk8s/current", "/var/snap/microk8s/current"),
    "minikube": ("/var/lib/minikube",),
}
_INTERESTING = re.compile(
    r"(?:containerd|docker|runc|kube|cri-tools|cri-o|crun|moby|podman|nvidia|libnvidia|cuda-drivers)"
)


def os_release(text: str) -> dict[str, str]:
    """Parse an os-release file; ``key`` is for example ``Debian 12``, ``repository_name`` ``debian12``."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            try:
                values[name] = "".join(shlex.split(value))
            except ValueError:
                values[name] = value
    name, version = values.get("ID", ""), values.get("VERSION_ID", "")
    return {
        "id": name,
        "version_id": version,
        "codename": values.get("VERSION_CODENAME", ""),
        "pretty_name": values.get("PRETTY_NAME", name),
        "key": f"{_NAMES.get(name, name)} {version}".strip(),
        "repository_name": (name + version).replace(".", ""),
    }


def system(root: str, controller_time: float) -> dict[str, Any]:
    uname = os.uname()
    memory = _meminfo(text_or_nothing(root, "/proc/meminfo"))
    return {
        "os": os_release(text_or_nothing(root, "/etc/os-release") or text_or_nothing(root, "/usr/lib/os-release")),
        "kernel": uname.release,
        "architecture": native_architecture(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "is_root": os.geteuid() == 0,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mib": memory.get("MemTotal", 0) // 1024,
        "memory_available_mib": memory.get("MemAvailable", 0) // 1024,
        "swaps": _swaps(root),
        "hostname": uname.nodename,
        "machine_id": text_or_nothing(root, "/etc/machine-id").strip(),
        "product_uuid": text_or_nothing(root, "/sys/class/dmi/id/product_uuid").strip(),
        "now": time.time(),
        "clock_offset": time.time() - controller_time if controller_time else 0.0,
        "cgroup_version": 2 if under(root, "/sys/fs/cgroup/cgroup.controllers").exists() else 1,
        "secure_boot": _secure_boot(root),
    }


def inotify(root: str) -> dict[str, int]:
    """Return the kernel's inotify limits per user; unreadable ones are omitted."""
    found = {name: text_or_nothing(root, f"/proc/sys/fs/inotify/{name}").strip() for name in _INOTIFY}
    return {name: int(text) for name, text in found.items() if text.isdecimal()}


def disks(root: str, paths: Iterable[str]) -> list[dict[str, Any]]:
    """Return the free space at each existing or future path. Paths with the same ``device`` share it."""
    found = []
    for path in paths:
        place = under(root, path)
        while not place.exists():
            place = place.parent
        space = os.statvfs(place)
        found.append(
            {
                "path": path,
                "free_mib": space.f_bavail * space.f_frsize // 2**20,
                "total_mib": space.f_blocks * space.f_frsize // 2**20,
                "device": str(place.stat().st_dev),
            }
        )
    return found


def kernel_modules(root: str, names: Iterable[str]) -> dict[str, str]:
    """Return loaded, builtin, available or missing for each module."""
    release = os.uname().release
    loaded = loaded_modules(text_or_nothing(root, "/proc/modules"))
    builtin = builtin_modules(text_or_nothing(root, f"/lib/modules/{release}/modules.builtin"))
    available = builtin_modules(
        "\n".join(
            line.partition(":")[0] for line in text_or_nothing(root, f"/lib/modules/{release}/modules.dep").splitlines()
        )
    )
    states = {}
    for name in names:
        if name in loaded:
            states[name] = "loaded"
        elif name in builtin or any(under(root, path).exists() for path in traces(name)):
            states[name] = "builtin"
        else:
            states[name] = "available" if name in available else "missing"
    return states


def kernel_packages(root: str, database: Database, distribution: str, runner: Runner | None) -> dict[str, Any]:
    """Return what is needed to build modules for the running kernel. With ``runner``, apt is also queried."""
    release = os.uname().release
    found = read_kernel_packages(database, release, text_or_nothing(root, "/proc/version"), distribution)
    known: bool | None = None
    if runner:
        exact = found["headers"][0]
        names = known_packages(runner, root, exact.removesuffix(release))
        # Without package lists, apt only knows installed packages.
        known = True if exact in names else False if any(not database.version(name) for name in names) else None
    return {
        **found,
        "headers_found": under(root, f"/lib/modules/{release}/build").exists(),
        "headers_known": known,
    }


def resolver(root: str, runner: Runner, wanted: Iterable[str]) -> dict[str, Any]:
    """Return whether systemd-resolved runs, the kubelet's ``resolvConf``, and the name servers in each file.

    ``kubelet`` is None if its configuration names no file; the name servers of a missing file are None.
    """
    listed = text_or_nothing(root, "/var/lib/kubelet/config.yaml")
    kubelet = re.search(r"^resolvConf:[ \t]*[\"']?([^\s\"'#]*)", listed, re.MULTILINE)
    files: dict[str, list[str] | None] = {}
    for path in (*_RESOLV_CONF, *wanted, kubelet[1] if kubelet else ""):
        if path:
            text = read_text(under(root, path))
            files[path] = None if text is None else re.findall(r"^[ \t]*nameserver[ \t]+(\S+)", text, re.MULTILINE)
    return {
        "systemd_resolved": files[_RESOLV_CONF[0]] is not None and is_active(runner, "systemd-resolved"),
        "kubelet": kubelet[1] if kubelet else None,
        "files": files,
    }


def installed(database: Database) -> dict[str, str]:
    """Return the versions of packages for containers, Kubernetes and GPUs."""
    return {name: database.version(name) or "" for name in database.names() if _INTERESTING.match(name)}


def held(root: str, database: Database) -> list[str]:
    """Return the held packages among them; empty if this collection manages the host, because it holds its own."""
    if any(under(root, "/etc/apt/sources.list.d").glob("gpulab-*.sources")):
        return []
    found = (database.get(name) for name in database.names() if _INTERESTING.match(name))
    return sorted(package.name for package in found if package and package.held)


def other_clusters(root: str) -> list[str]:
    """Return the installed Kubernetes distributions other than kubeadm."""
    return [name for name, paths in _DISTRIBUTIONS.items() if any(under(root, path).exists() for path in paths)]


def containerd_drop_ins(root: str, pattern: str) -> list[dict[str, Any]]:
    """Return drop-ins and their imports; empty if they can't be read (not root)."""
    try:
        return imported_files(root, [pattern])
    except DomainError:
        return []


def _swaps(root: str) -> list[dict[str, object]]:
    try:
        areas, known = active_swaps(text_or_nothing(root, "/proc/swaps")), origins(root)
        return [{**area.facts(), "origin": blamed(area.name, known)} for area in areas]
    except DomainError:
        return []


def _secure_boot(root: str) -> bool:
    try:
        return under(root, _EFI_SECURE_BOOT).read_bytes()[4:5] == b"\x01"
    except OSError:
        return False


def _meminfo(text: str) -> Mapping[str, int]:
    return {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
