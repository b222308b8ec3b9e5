# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules about one host."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from ansible_collections.gpulab.kubernetes.plugins.module_utils._dpkg import compare_versions
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._preflight import (
    Cluster,
    Facts,
    HostRule,
    Problem,
    Reading,
    listing,
)
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._resolver import resolv_conf, usable

_PYTHON = "3.9"
# The newest Python on hosts, by release of ansible-core (its support matrix). Later releases are not judged.
_NEWEST_PYTHON = {"2.19": "3.13", "2.20": "3.14", "2.21": "3.14"}
_IN_PYTHON = re.compile(r"python(3\.\d+)")
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_CLUSTER_PROGRAMS = (
    "etcd",
    "flanneld",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubelet",
)
# What distributions call them; containerd.io can't be installed beside them.
_FOREIGN_RUNTIMES = ("containerd", "docker.io", "runc")
# kube-proxy works with either.
_PACKET_FILTERS = {"ip_tables", "nf_tables"}
# How the settings of each repository begin.
_SETTINGS = {
    "Kubernetes": "kubeadm",
    "containerd": "containerd",
    "NVIDIA container toolkit": "nvidia_container_toolkit",
    "NVIDIA driver": "nvidia_driver",
}
_PREFIX = re.compile(r"\A(?:(?:Task|Action|Module) failed: )+")
_FAILURES = (
    (
        re.compile(r"sudo|become password|a password is required|\bsu: "),
        "Ansible can't become root",
        "Installing packages and services needs root",
        "Allow the user to use sudo without a password, or give one (--ask-become-pass, ansible_become_password)",
    ),
    (
        re.compile(
            r"minimum of Python|[Nn]o python interpreter|python\S*: (?:not found|No such)|interpreter .*not found"
        ),
        "Ansible finds no Python that it can use",
        f"Ansible's modules need Python {_PYTHON} or newer on the host",
        "Install it (apt-get install python3), or name it with ansible_python_interpreter",
    ),
    (
        re.compile(r"there is no program ip\b"),
        "The host's network can't be read",
        "Addresses and routes are read with the program ip, by kubeadm too",
        "Install it (apt-get install iproute2)",
    ),
)


def failure(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """What kept a host from being read, in Ansible's words."""
    said = _said(reading.failure)
    core = str(cluster.settings["ansible_core"])
    newest, seen = _NEWEST_PYTHON.get(".".join(core.split(".")[:2])), _IN_PYTHON.search(said)
    if newest and seen and compare_versions(seen[1], newest) > 0:
        yield _too_old_for(reading, core, newest, seen[1])
        return
    if reading.failure.get("unreachable"):
        yield reading.problem(
            f"The host can't be reached: {said}",
            "ansible_host, ansible_user, ansible_port, SSH keys",
            "Nothing can be done on it",
            f"Try: ansible {reading.host} -i INVENTORY -m ansible.builtin.ping",
        )
        return
    for pattern, what, why, do in _FAILURES:
        if pattern.search(said):
            yield reading.problem(f"{what}: {said}", "host", why, do)
            return
    yield reading.problem(
        f"The host can't be read: {said}",
        "host",
        "Nothing is known of it",
        f"Try: ansible {reading.host} -i INVENTORY -b -m gpulab.kubernetes.preflight_info",
    )


def _said(result: Facts) -> str:
    words = [_PREFIX.sub("", str(result.get(key) or "")) for key in ("msg", "module_stderr", "module_stdout")]
    return " / ".join(dict.fromkeys(" ".join(text.split()) for text in words if text)) or "no reason given"


def root(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    if reading.facts["is_root"]:
        return
    if reading.settings["become"]:
        what, where = "Ansible is not root on this host", "ansible_become_user, ansible_become_method"
        do = "The playbooks set become: true; correct the user and method that the inventory names, or leave them out"
    else:
        what, where = "Ansible is not root on this host: your inventory has ansible_become=false", "ansible_become"
        do = "Remove ansible_become from the inventory (the playbooks set become: true), or connect as root"
    yield reading.problem(what, where, "Installing packages and services needs root", do)


def platform(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    facts, known = reading.facts, cluster.settings["distributions"]
    if facts["os"]["key"] not in known:
        yield reading.problem(
            f"The operating system is {facts['os']['pretty_name'] or 'unknown'}",
            "/etc/os-release",
            "There are packages and settings only for the supported ones",
            f"Use one of {listing(known)}",
        )
    if facts["architecture"] != "amd64":
        yield reading.problem(
            f"The architecture is {facts['architecture']}",
            "processor",
            "Packages are pinned for amd64 only",
            "Use a machine with an x86-64 processor",
        )
    if compare_versions(facts["python"], _PYTHON) < 0:
        yield reading.problem(
            f"Python is {facts['python']}",
            "ansible_python_interpreter",
            f"The modules of this collection need {_PYTHON} or newer",
            "Name a newer one with ansible_python_interpreter",
        )


def core_for_python(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    core = str(cluster.settings["ansible_core"])
    newest = _NEWEST_PYTHON.get(".".join(core.split(".")[:2]))
    python = ".".join(str(reading.facts["python"]).split(".")[:2])
    if newest and compare_versions(python, newest) > 0:
        yield _too_old_for(reading, core, newest, python)


def _too_old_for(reading: Reading, core: str, newest: str, python: str) -> Problem:
    return reading.problem(
        f"Python is {python}, and ansible-core {core} on the controller knows Python up to {newest}",
        "ansible-core on the controller, ansible_python_interpreter",
        "Its modules fail there with errors that don't say so",
        "Install ansible-core 2.20 or newer on the controller, or name an older Python of the host with "
        "ansible_python_interpreter",
    )


def kernel(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    facts = reading.facts
    modules = facts["kernel_modules"]
    missing = {name for name, state in modules.items() if state == "missing"}
    if not missing >= _PACKET_FILTERS:
        missing -= _PACKET_FILTERS
    if missing:
        names = " nor ".join(sorted(missing)) if missing == _PACKET_FILTERS else listing(sorted(missing))
        yield reading.problem(
            f"The running kernel {facts['kernel']} has no module {names}",
            f"/lib/modules/{facts['kernel']}",
            "The container runtime, kube-proxy and the pod network need it",
            f"If the kernel was upgraded, reboot; else {_more_modules(facts)}",
        )
    allowed = cluster.settings["kubelet_configuration"].get("failCgroupV1", True) is False
    if facts["cgroup_version"] == 1 and not allowed:
        yield reading.problem(
            "The host uses cgroup v1",
            "kernel command line",
            "kubelet 1.35 and newer refuse to start with it",
            "Remove systemd.unified_cgroup_hierarchy=0 from the kernel command line and reboot",
        )


def _more_modules(facts: Facts) -> str:
    """What brings the modules that small kernels leave out."""
    release, system = facts["kernel"], facts["os"]["key"]
    if system.startswith("Ubuntu") and not release.endswith("-kvm"):
        return (
            f"install linux-modules-extra-{release}, or, where there is no such package, linux-image-generic with its "
            "modules, and reboot"
        )
    if system.startswith("Ubuntu"):
        return "install linux-image-generic, as this one is made for small virtual machines, and reboot"
    if "-cloud-" in release:
        return "install linux-image-amd64, as this one is made for virtual machines only, and reboot"
    return "install the modules that belong to this kernel"


def resources(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    facts = reading.facts
    kind = "control_plane" if reading.host in cluster.settings["control_plane"] else "worker"
    least = cluster.settings["minimum"][kind]
    for name, unit in (("memory_mib", "MiB of memory"), ("cpus", "processors")):
        if facts[name] < int(least[name]):
            yield reading.problem(
                f"The host has {facts[name]} {unit}, a {kind.replace('_', ' ')} needs {least[name]}",
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
                f"The disk of {listing(share[0] for share in shares)} has {free} MiB free, {want} MiB are needed",
                "disk",
                "Images and packages would fill it, and kubelet evicts pods when it is nearly full",
                f"Free some space, mount a larger disk there, or lower {' or '.join(variables)}",
            )


def _mib(by_path: Facts) -> dict[str, int]:
    return {path: int(size) for path, size in by_path.items()}


def _driver_is_built(reading: Reading) -> bool:
    """Whether this collection will install a driver on the host, and not only keep the one that is there."""
    settings, driver = reading.settings, reading.facts["nvidia_driver"]
    source, version = settings["nvidia_driver_source"], str(settings["nvidia_driver_version"])
    if not reading.facts["gpus"] or source not in ("cuda_repository", "distribution"):
        return False
    there = driver["origin"] == source and driver["loaded_version"]
    return not there or (source == "cuda_repository" and version not in ("auto", driver["loaded_version"]))


def swap(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    # Swap on zram lies in memory already.
    used = sum(one["used_mib"] for one in reading.facts["swaps"] if not one["name"].startswith("/dev/zram"))
    available = reading.facts["memory_available_mib"]
    if used > available:
        yield reading.problem(
            f"Swap can't be turned off: {used} MiB lie in it, {available} MiB of memory are available",
            listing(
                f"{one['name']}, turned on by {one['origin']}" if one.get("origin") else one["name"]
                for one in reading.facts["swaps"]
            ),
            "Kubernetes wants swap off, and what lies in it has to go back into memory",
            "Stop programs that use much memory, then run again",
        )


def ports(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    ours = reading.facts["cluster"]["begun"]
    for listener in reading.facts["listeners"]:
        program = listener["process"]
        if ours and (_of_the_cluster(program) or not reading.facts["is_root"]):
            continue
        who = f"{program} (process {listener['pid']})" if listener["pid"] else program or "another program"
        yield reading.problem(
            f"Port {listener['port']}/{listener['protocol']} is in use by {who}",
            f"{listener['address']}:{listener['port']}",
            "Kubernetes needs this port",
            "Stop that program, or move it to another port",
        )


def _of_the_cluster(program: str) -> bool:
    # The kernel cuts names off at 15 characters.
    return any(program == name or (len(program) == 15 and name.startswith(program)) for name in _CLUSTER_PROGRAMS)


def firewall(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    found = reading.facts["firewall"]
    tool = found["tool"] or "packet filter"
    if found["active"] and found["blocks"] is None and reading.facts["is_root"]:
        yield reading.problem(
            f"A firewall ({tool}) is active, and its rules can't be read",
            tool,
            "It may cut the nodes off from each other",
            f"Let these ports in: {listing(cluster.settings['reachable_ports'])}",
        )
    elif found["blocks"]:
        commands = {"ufw": "ufw allow {}", "firewalld": "firewall-cmd --permanent --add-port={}"}
        command = commands.get(found["tool"], "")
        yield reading.problem(
            f"A firewall ({tool}) blocks {listing(found['blocks'])}",
            tool,
            "Nodes reach each other and the API server through these ports",
            "Let them in from the other nodes"
            + (f": {'; '.join(command.format(port) for port in found['blocks'])}" if command else "")
            + ("; firewall-cmd --reload" if found["tool"] == "firewalld" else ""),
        )


def name(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    node = str(reading.settings["node_name"])
    if not _NODE_NAME.fullmatch(node) or len(node) > 253 or node == "localhost":
        yield reading.problem(
            f"{node!r} can't be the name of a node",
            "host name, cluster_node_name",
            "Names of nodes are DNS names: lower-case letters, digits, dots and hyphens, and not localhost",
            "Rename the host (hostnamectl set-hostname NAME), or set cluster_node_name",
        )


def node_address(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    wanted = str(reading.settings["node_address"])
    own = [entry["address"] for entry in reading.facts["addresses"]]
    if not wanted:
        yield reading.problem(
            "The host has no default route, so its address in the cluster is unknown",
            "cluster_node_address",
            "Nodes reach each other by one address per node",
            f"Set cluster_node_address for the host, to one of {listing(own) or '(it has no address)'}",
        )
    elif wanted not in own:
        yield reading.problem(
            f"The node address {wanted} is not on this host",
            "cluster_node_address",
            "kubelet and the API server can't use an address that the host does not have",
            f"Set cluster_node_address to one of {listing(own) or '(it has no address)'}",
        )


def resolver(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """A finished host keeps its file, and is only told of one that keeps every pod from starting."""
    found, shared = reading.facts["resolver"], cluster.settings["kubelet_configuration"].get("resolvConf")
    path = resolv_conf(found, reading.settings["resolv_conf"], shared, reading.finished)
    nameservers = found["files"].get(path)
    if not path or (reading.finished and nameservers is not None):
        return
    where, change = "kubeadm_resolv_conf", "Set kubeadm_resolv_conf for the host to a file that names the real ones"
    if reading.finished:
        where = "/var/lib/kubelet/config.yaml"
        better = resolv_conf(found, reading.settings["resolv_conf"], shared, finished=False)
        change = f"Set resolvConf to {better} there, then: systemctl restart kubelet"
    if nameservers is None:
        yield reading.problem(
            f"kubelet is to take name servers from {path}, and there is no such file",
            where,
            "Pods don't start without it",
            change,
        )
    elif not usable(nameservers):
        yield reading.problem(
            f"{path} names {listing(nameservers) or 'no name server'}, which no pod can reach",
            where,
            "CoreDNS and other pods take their name servers from it, and a loopback address there is the pod's own",
            change,
        )


def repositories(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    for repository in reading.facts["repositories"]:
        label = f"{repository['name']} ({repository['uri']})"
        if repository["error"]:
            yield reading.problem(
                f"The repository {repository['name']} can't be read: {repository['error']}",
                repository["uri"],
                "Packages are installed from it",
                "Check the address, DNS and the way out of this host; set cluster_http_proxy, or name a mirror",
            )
        else:
            yield from _key(reading, repository)
        for package, version in repository["missing"].items():
            known = repository["available"].get(package, [])
            yield reading.problem(
                f"The repository {label} does not hold {package} {version}",
                repository["uri"],
                "Exactly this version is pinned",
                f"It holds {listing(known[:12]) or 'no version of it'}. Choose one of those, or bring the mirror up to "
                "date",
            )
        for conflict in repository["conflicts"]:
            yield reading.problem(
                f"Another apt source names the repository {label}",
                f"{conflict['file']} line {conflict['line']}",
                "apt stops working when one address has two keys (Conflicting values set for option Signed-By)",
                "Remove or comment out that entry; this collection brings its own",
            )


def _key(reading: Reading, repository: Facts) -> Iterator[Problem]:
    key = repository.get("key") or {}
    setting = _SETTINGS.get(repository["name"], "")
    what, why, do = {
        "unexpected": (
            "is not the expected one",
            "Whoever has the key of a repository can install anything on this host",
            f"Compare it with what the repository's owner publishes; name it in {setting}_repository_key_fingerprints "
            "if it is right, as that of a mirror with a key of its own",
        ),
        "expired": (
            "has expired",
            "apt refuses what it signs",
            "Check the host's clock. If that is right, the repository's owner has to publish a renewed key, or the "
            "mirror has to fetch it",
        ),
        "unreachable": (
            "can't be read",
            "apt accepts packages only under this key",
            f"Check the address; a mirror ({setting}_repository_url) has to hold this file, too",
        ),
        "unreadable": (
            "can't be read",
            "apt accepts packages only under this key",
            "Check what answers at this address; a proxy may do so in its place",
        ),
    }.get(key.get("kind", ""), ("", "", ""))
    if what:
        yield reading.problem(
            f"The key of the repository {repository['name']} {what}: {key['cause']}", key["url"], why, do
        )


def runtimes(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    installed = reading.facts["installed"]
    foreign = [f"{package} {installed[package]}" for package in _FOREIGN_RUNTIMES if package in installed]
    if foreign:
        yield reading.problem(
            f"A container runtime of the distribution is installed: {listing(foreign)}",
            "dpkg",
            "containerd.io can't be installed beside it, and what runs in it would stop",
            "Move what runs in it elsewhere and remove these packages",
        )


RULES: tuple[HostRule, ...] = (
    root,
    platform,
    core_for_python,
    kernel,
    resources,
    swap,
    ports,
    firewall,
    name,
    node_address,
    resolver,
    repositories,
    runtimes,
)
