# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for one host."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from ...module_utils._problem import Problem
from ...module_utils._versions import compare_versions
from ...module_utils._words import listing
from . import network, packages
from .failure import PYTHON, core_for_python
from .model import Cluster, Facts, HostRule, Reading

# kube-proxy works with either of these.
_PACKET_FILTERS = {"ip_tables", "nf_tables"}
# The kubelet's DefaultEvictionHard in percent, by directory, the highest first.
_EVICTED_BELOW = {"/var/lib/containerd": ("imagefs.available", 15), "/var/lib/kubelet": ("nodefs.available", 10)}
# The role host raises lower limits to these values, unless they are in host_sysctls.
INOTIFY = {"max_user_instances": 8192, "max_user_watches": 524288}


def root(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    if reading.facts["is_root"]:
        return
    if reading.settings["become"]:
        what, where = "Ansible is not root on this host", "ansible_become_user, ansible_become_method"
        do = "The playbooks set become: true; correct the user and method in the inventory, or remove them"
    else:
        what, where = "Ansible is not root on this host: your inventory has ansible_become=false", "ansible_become"
        do = "Remove ansible_become from the inventory (the playbooks set become: true), or connect as root"
    yield reading.problem("not_root", what, where, "Root is required to install packages and services", do)


def platform(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    facts, known = reading.facts, cluster.settings["distributions"]
    if _is_wsl(facts):
        yield reading.problem(
            "wsl_unsupported",
            f"This is Windows Subsystem for Linux (WSL), kernel {facts['kernel']}",
            "kernel",
            "Its GPUs are not on a PCI bus and use Windows' driver, and its kernel lacks modules that Kubernetes needs",
            "Use a machine or a virtual machine that runs Linux itself; WSL can be the controller",
        )
    if facts["os"]["key"] not in known:
        yield reading.problem(
            "os_unsupported",
            f"The operating system is {facts['os']['pretty_name'] or 'unknown'}",
            "/etc/os-release",
            "There are packages and settings only for the supported operating systems",
            f"Use one of {listing(known)}",
        )
    if facts["architecture"] != "amd64":
        yield reading.problem(
            "architecture_unsupported",
            f"The architecture is {facts['architecture']}",
            "processor",
            "Packages are pinned for amd64 only",
            "Use a machine with an x86-64 processor",
        )
    if compare_versions(facts["python"], PYTHON) < 0:
        yield reading.problem(
            "python_too_old",
            f"Python is {facts['python']}",
            "ansible_python_interpreter",
            f"The modules of this collection need {PYTHON} or newer",
            "Set ansible_python_interpreter to a newer Python",
        )


def kernel(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    facts = reading.facts
    modules = facts["kernel_modules"]
    missing = {name for name, state in modules.items() if state == "missing"}
    if not missing >= _PACKET_FILTERS:
        missing -= _PACKET_FILTERS
    # No package adds modules to WSL's kernel.
    if missing and not _is_wsl(facts):
        names = " nor ".join(sorted(missing)) if missing == _PACKET_FILTERS else listing(sorted(missing))
        yield reading.problem(
            "kernel_modules_missing",
            f"The running kernel {facts['kernel']} has no module {names}",
            f"/lib/modules/{facts['kernel']}",
            "The container runtime, kube-proxy and the pod network need it",
            f"If the kernel was upgraded, reboot; otherwise, {_more_modules(facts)}",
        )
    allowed = cluster.settings["kubelet_configuration"].get("failCgroupV1", True) is False
    if facts["cgroup_version"] == 1 and not allowed:
        yield reading.problem(
            "cgroup_v1",
            "The host uses cgroup v1",
            "kernel command line",
            "kubelet 1.35 and newer refuse to start with it",
            "Remove systemd.unified_cgroup_hierarchy=0 from the kernel command line and reboot",
        )


def _is_wsl(facts: Facts) -> bool:
    """Return whether the kernel is WSL's: 5.15.167.4-microsoft-standard-WSL2, 4.4.0-19041-Microsoft."""
    return "-microsoft" in str(facts["kernel"]).lower()


def _more_modules(facts: Facts) -> str:
    """Return how to get the modules that minimal kernels lack."""
    release, system = facts["kernel"], facts["os"]["key"]
    if system.startswith("Ubuntu") and not release.endswith("-kvm"):
        return (
            f"install linux-modules-extra-{release}, or, if there is no such package, linux-image-generic with its "
            "modules, and reboot"
        )
    if system.startswith("Ubuntu"):
        return "install linux-image-generic and reboot, because this kernel is built for small virtual machines"
    if "-cloud-" in release:
        return "install linux-image-amd64 and reboot, because this kernel is built only for virtual machines"
    return "install the modules that belong to this kernel"


def resources(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    facts = reading.facts
    kind = "control_plane" if reading.host in cluster.settings["control_plane"] else "worker"
    least = cluster.settings["minimum"][kind]
    for name, unit in (("memory_mib", "MiB of memory"), ("cpus", "processors")):
        if facts[name] < int(least[name]):
            yield reading.problem(
                "host_too_small",
                f"The host has {facts[name]} {unit}, but a {kind.replace('_', ' ')} needs {least[name]}",
                "hardware",
                "kubeadm refuses such a host, or its pods would be killed",
                f"Use a larger machine, or lower preflight_{kind}_{name} if you know better",
            )
    if reading.finished:
        return
    wanted = Counter(_mib(cluster.settings["disk_mib"]))
    variables = ["preflight_disk_mib"]
    if _driver_is_built(reading):
        wanted.update(_mib(cluster.settings["driver_disk_mib"]))
        variables.append("preflight_driver_disk_mib")
    needed: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for disk in facts["disks"]:
        if wanted[disk["path"]]:
            needed[disk["device"]].append((disk["path"], wanted[disk["path"]], disk["free_mib"]))
    for shares in needed.values():
        want, free = sum(share[1] for share in shares), min(share[2] for share in shares)
        if free < want:
            yield reading.problem(
                "disk_too_small",
                f"The disk of {listing(share[0] for share in shares)} has {free} MiB free, but {want} MiB are needed",
                "disk",
                "Images and packages would fill it, and the kubelet evicts pods when it is nearly full",
                f"Free some space, mount a larger disk there, or lower {' or '.join(variables)}",
            )
        elif "evictionHard" not in cluster.settings["kubelet_configuration"]:
            yield from _evictions(reading, [share[0] for share in shares])


def _evictions(reading: Reading, paths: Iterable[str]) -> Iterator[Problem]:
    """Check whether the kubelet would immediately evict pods because these paths have too little free space."""
    disks = {disk["path"]: disk for disk in reading.facts["disks"]}
    for path, (signal, percent) in _EVICTED_BELOW.items():
        least = disks[path]["total_mib"] * percent // 100 if path in paths else 0
        if least and disks[path]["free_mib"] < least:
            free, total = disks[path]["free_mib"], disks[path]["total_mib"]
            yield reading.problem(
                "disk_below_eviction_threshold",
                f"The disk of {path} has {free} MiB free, less than {percent} % of its {total} MiB",
                "disk, kubeadm_kubelet_configuration",
                f"Below {percent} % ({signal}), the kubelet evicts pods and takes no new ones",
                f"Free {least - free} MiB or more, mount a larger disk there, or set evictionHard in "
                "kubeadm_kubelet_configuration, with all signals, since those that are left out are off: "
                "{memory.available: 100Mi, nodefs.available: 5%, nodefs.inodesFree: 5%, imagefs.available: 5%}",
            )
            return


def _mib(by_path: Facts) -> dict[str, int]:
    return {path: int(size) for path, size in by_path.items()}


def _driver_is_built(reading: Reading) -> bool:
    """Return whether this collection will install a driver, rather than keep the existing one."""
    settings, driver = reading.settings, reading.facts["nvidia_driver"]
    source, version = settings["nvidia_driver_source"], str(settings["nvidia_driver_version"])
    if not reading.facts["gpus"] or source not in ("cuda_repository", "distribution"):
        return False
    there = driver["origin"] == source and driver["loaded_version"]
    return not there or (source == "cuda_repository" and version not in ("auto", driver["loaded_version"]))


def swap(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    # Swap on zram is already in memory.
    used = sum(one["used_mib"] for one in reading.facts["swaps"] if not one["name"].startswith("/dev/zram"))
    available = reading.facts["memory_available_mib"]
    if used > available:
        yield reading.problem(
            "swap_in_use",
            f"Swap can't be turned off: {used} MiB are in use, but only {available} MiB of memory are available",
            listing(
                f"{one['name']}, turned on by {one['origin']}" if one.get("origin") else one["name"]
                for one in reading.facts["swaps"]
            ),
            "Kubernetes requires swap to be off, and the contents of swap must fit into memory",
            "Stop programs that use much memory, then run again",
        )


def inotify(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check for limits that stay too low because the inventory sets them. All others are raised."""
    declared = reading.settings.get("sysctls") or {}
    for name, there in (reading.facts.get("inotify") or {}).items():
        wanted = str(declared.get(f"fs.inotify.{name}", ""))
        if wanted.isdecimal() and int(wanted) < INOTIFY[name]:
            yield reading.problem(
                "inotify_limit_low",
                f"host_sysctls sets fs.inotify.{name} to {wanted} (it is {there} now)",
                "host_sysctls",
                'Containers of a node with many pods fail with "too many open files" if this limit is low',
                f"Remove it from host_sysctls, so that it is raised to {INOTIFY[name]}",
            )


NOTES: tuple[HostRule, ...] = (inotify,)
RULES: tuple[HostRule, ...] = (
    root,
    platform,
    core_for_python,
    kernel,
    resources,
    swap,
    *network.RULES,
    *packages.RULES,
)
