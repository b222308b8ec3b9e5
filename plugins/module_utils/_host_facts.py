# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is: system, memory, disks, GPUs and their driver, the cluster it belongs to. Reads files only."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt_source import native_architecture
from ansible_collections.gpulab.kubernetes.plugins.module_utils._containerd_files import imported_files
from ansible_collections.gpulab.kubernetes.plugins.module_utils._dpkg import Database
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._hostfiles import text_or_nothing, under
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kernel import builtin_modules, loaded_modules
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kernel_packages import read as read_kernel_packages
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeconfig import KubeconfigError, read_kubeconfig
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_driver import parse_version
from ansible_collections.gpulab.kubernetes.plugins.module_utils._pki import (
    CertificateError,
    certificates,
    public_key_hash,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._swap import active_swaps

_NAMES = {"debian": "Debian", "ubuntu": "Ubuntu"}
_EFI_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# What shows that a module is there although nothing lists it, as in a container or a kernel without modules.
_TRACES = {"br_netfilter": "/proc/sys/net/bridge", "overlay": "/sys/module/overlay"}
_TRACES_OF_KUBEADM = ("/etc/kubernetes/bootstrap-kubelet.conf", "/var/lib/kubelet/config.yaml")
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
_INTERESTING = re.compile(
    r"(?:containerd|docker|runc|kube|cri-tools|cri-o|crun|moby|podman|nvidia|libnvidia|cuda-drivers)"
)


def os_release(text: str) -> dict[str, str]:
    """An os-release file as this collection names distributions: key ``Debian 12``, repository_name ``debian12``."""
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


def disks(root: str, paths: Iterable[str]) -> list[dict[str, Any]]:
    """Free space where each path is, or will be. Paths with one ``device`` share their space."""
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
    """loaded, builtin, available or missing, by module."""
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
        elif name in builtin or under(root, _TRACES.get(name, f"/sys/module/{name}")).exists():
            states[name] = "builtin"
        else:
            states[name] = "available" if name in available else "missing"
    return states


def kernel_packages(root: str, database: Database, distribution: str) -> dict[str, Any]:
    """What builds modules for the running kernel, by dpkg's database and /proc/version."""
    release = os.uname().release
    found = read_kernel_packages(database, release, text_or_nothing(root, "/proc/version"), distribution)
    return {**found, "headers_found": under(root, f"/lib/modules/{release}/build").exists()}


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


def installed(database: Database) -> dict[str, str]:
    """Versions of what has to do with containers, Kubernetes and GPUs."""
    return {name: database.version(name) or "" for name in database.names() if _INTERESTING.match(name)}


def containerd_drop_ins(root: str, pattern: str) -> list[dict[str, Any]]:
    """Drop-ins and what they import; none when they can't be read (not root)."""
    try:
        return imported_files(root, [pattern])
    except DomainError:
        return []


def cluster(root: str) -> dict[str, Any]:
    """The cluster that this host belongs to, by what kubeadm left, also half-way. ``ca_hashes`` as kubeadm join's."""
    etc = under(root, "/etc/kubernetes")
    admin, kubelet, api_server, ca_key = (
        (etc / name).exists() for name in ("admin.conf", "kubelet.conf", "manifests/kube-apiserver.yaml", "pki/ca.key")
    )
    # Only kubeadm init writes these; it writes kubelet.conf long before it is done, kubeadm join when it is.
    control_plane = admin or api_server or ca_key
    complete = admin and api_server and under(root, "/var/lib/etcd/member").exists()
    begun = any(under(root, path).exists() for path in _TRACES_OF_KUBEADM)
    return {
        "admin_conf": admin,
        "kubelet_conf": kubelet,
        "role": "control_plane" if control_plane else "worker" if kubelet else "",
        "begun": control_plane or kubelet or begun,
        "finished": kubelet and (complete or not control_plane),
        "ca_hashes": _ca_hashes(text_or_nothing(root, "/etc/kubernetes/pki/ca.crt")),
        "server": _server(text_or_nothing(root, "/etc/kubernetes/kubelet.conf")),
    }


def _ca_hashes(pem: str) -> list[str]:
    try:
        return [public_key_hash(certificate) for certificate in certificates(pem)]
    except CertificateError:
        return []


def _server(text: str) -> str:
    try:
        return read_kubeconfig(text).server if text else ""
    except KubeconfigError:
        return ""


def _swaps(root: str) -> list[dict[str, object]]:
    try:
        return [swap.facts() for swap in active_swaps(text_or_nothing(root, "/proc/swaps"))]
    except DomainError:
        return []


def _secure_boot(root: str) -> bool:
    try:
        return under(root, _EFI_SECURE_BOOT).read_bytes()[4:5] == b"\x01"
    except OSError:
        return False


def _by_nvidia(database: Database, name: str) -> bool:
    package = database.get(name)
    if not package:
        return False
    either = _OF_EITHER.match(name) and _REVISION_OF_NVIDIA.search(package.version)
    return bool(_OF_CUDA_REPOSITORY.match(name) or either or "@nvidia.com" in package.maintainer)


def _meminfo(text: str) -> Mapping[str, int]:
    return {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}


def _first_line(path: Path) -> str:
    try:
        return (path.read_text(encoding="utf-8", errors="replace").splitlines() or [""])[0].strip()
    except OSError:
        return ""
