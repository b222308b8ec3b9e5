# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.preflight import (
    FilterModule,
    preflight_notes,
    preflight_report,
)
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._preflight.host import INOTIFY
from preflight_facts import T4, facts

find = FilterModule().filters()["preflight_problems"]

ROOT = Path(__file__).resolve().parents[4]
A100, V100, B200, B300, RTX_5090 = "0x20b0", "0x1db5", "0x2901", "0x3182", "0x2b85"
CHECK_IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda"
API_PACKAGES = {"kubernetes": "37.0.2", "yaml": "6.0.2"}
SETTINGS: dict[str, Any] = {
    "control_plane": ["cp1"],
    "nvidia_driver_versions": {
        "580.178.04": {"packages": {"Debian 12": "580.178.04-1"}},
        "595.91.07": {"packages": {"Debian 12": "595.91.07-1", "Debian 13": "595.91.07-1"}},
    },
    "cluster_pod_network": "10.244.0.0/16",
    "cluster_service_network": "10.96.0.0/12",
    "distributions": ["Debian 12", "Debian 13"],
    "kubelet_configuration": {},
    "ansible_core": "2.21.5",
    "forks": 5,
    "awx": False,
    "api": {"reach": "refused", "error": "", "python": "/usr/bin/python3", "packages": API_PACKAGES},
    "api_endpoint": "192.168.7.11:6443",
    "api_delegate": "localhost",
    "reachable_ports": ["6443/tcp", "10250/tcp"],
    "clock_skew_s": 30,
    "disk_mib": {"/usr": 2000, "/var/lib/containerd": 8000},
    "driver_disk_mib": {"/usr": 2500, "/var/lib/dkms": 500, "/boot": 200},
    "gpu_manager": "device_plugin",
    "gpu_manager_changing": False,
    "kubernetes_version": "1.36.4",
    "kubernetes_versions": ["1.35.8", "1.36.4", "1.37.1"],
    "network_plugin": "flannel",
    "flannel_backend": "vxlan",
    "image_repository": "registry.k8s.io",
    "cluster_configuration": {},
    "kube_proxy_configuration": {},
    "cluster_dns_domain": "cluster.local",
    "cluster_api_endpoint": "192.168.7.11:6443",
    "api_name": "",
    "cluster_name": "",
    "recorded_name": "",
    "cluster_api_name": "",
    "recorded_api_name": "",
    "device_plugin_root": "/",
    "acceptance_image": f"{CHECK_IMAGE}12.5.0",
    "minimum": {"control_plane": {"memory_mib": 1700, "cpus": 2}, "worker": {"memory_mib": 700, "cpus": 1}},
}
TOOLKIT = ("nvidia-container-toolkit", "nvidia-container-toolkit-base")
PACKAGES: dict[str, Any] = {
    "containerd": {
        "names": ["containerd.io"],
        "version": {"Debian 12": "2.3.6-1~debian.12~bookworm"},
        "minimum": "2.2.0",
    },
    "container toolkit": {"names": list(TOOLKIT), "version": {"any": "1.20.1-1"}, "minimum": "1.18.0"},
    "Kubernetes": {"names": ["kubelet", "kubeadm", "kubectl"], "version": "1.36.4-1.1", "minimum": ""},
}
CRI = "plugins.'io.containerd.cri.v1.runtime'.containerd"
CONTAINERD_FILES = [
    {
        "path": "/etc/containerd/config.toml",
        "gpus": False,
        "text": f"version = 4\nimports = ['/etc/containerd/conf.d/*.toml']\n[{CRI}]\ndefault_runtime_name = 'runc'\n"
        f"[{CRI}.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\noptions = {{SystemdCgroup = true}}\n",
    },
    {
        "path": "/etc/containerd/conf.d/50-nvidia.toml",
        "gpus": True,
        "text": f"version = 4\n[{CRI}]\ndefault_runtime_name = 'nvidia'\n"
        f"[{CRI}.runtimes.nvidia]\nruntime_type = 'io.containerd.runc.v2'\n"
        "options = {BinaryName = '/usr/bin/nvidia-container-runtime', SystemdCgroup = true}\n",
    },
]


REJECTING = {"active": True, "blocks": [], "interfaces": {"eth0": []}, "forward": "FORWARD"}


def reading(name: str, number: int, gpus: int = 0) -> dict[str, Any]:
    return {
        "failure": {},
        "settings": {
            "become": True,
            "resolv_conf": "",
            "node_name": name,
            "node_address": f"192.168.7.{number}",
            "expected_gpus": gpus or None,
            "nvidia_driver_version": "580.178.04",
            "nvidia_driver_source": "cuda_repository",
            "nvidia_driver_root": "/",
            "nvidia_driver_modules": "auto",
            "nvidia_driver_replace_foreign": False,
            "nvidia_driver_upgrading": False,
            "gpu_sharing": {"mode": "exclusive"},
            "existing_packages": "refuse",
            "existing_sources": "refuse",
            "packages": PACKAGES,
            "containerd_version": "2.3.6",
            "containerd_conf_dir": "/etc/containerd/conf.d",
            "containerd_files": CONTAINERD_FILES,
        },
        "facts": facts(name, number, gpus),
    }


def machines() -> dict[str, Any]:
    return {"cp1": reading("cp1", 11), "gpu1": reading("gpu1", 12, 4), "gpu2": reading("gpu2", 13, 2)}


def set_at(target: Any, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for name in parents:
        target = target[int(name) if isinstance(target, list) else name]
    target[int(last) if isinstance(target, list) else last] = value


def check(changes: dict[str, Any], **settings: Any) -> list[dict[str, str]]:
    """Return the problems of three good hosts after changes at paths such as cp1.facts.cpus."""
    problems: list[dict[str, str]] = find(*changed(changes, **settings))
    return problems


def changed(changes: dict[str, Any], **settings: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    hosts, shared = machines(), copy.deepcopy(SETTINGS)
    for path, value in changes.items():
        set_at(hosts, path, value)
    shared.update(settings)
    return hosts, shared


@pytest.mark.parametrize("there", ["ip_tables", "nf_tables"])
def test_one_packet_filter_is_enough(there: str) -> None:
    assert check({"cp1.facts.kernel_modules": {"ip_tables": "missing", "nf_tables": "missing", there: "builtin"}}) == []


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("6.8.0-51-generic", "install linux-modules-extra-6.8.0-51-generic"),
        ("5.15.0-1071-kvm", "linux-image-generic"),
    ],
)
def test_modules_missing_in_minimal_ubuntu_kernels_have_a_remedy(kernel: str, words: str) -> None:
    system = {"key": "Ubuntu 24.04", "pretty_name": "Ubuntu 24.04.3 LTS"}
    changes = {"cp1.facts.kernel_modules.vxlan": "missing", "cp1.facts.os": system, "cp1.facts.kernel": kernel}
    (problem,) = check(changes, distributions=["Debian 12", "Ubuntu 24.04"])
    assert words in problem["do"] and ("modules-extra" in problem["do"]) == ("kvm" not in kernel)


def test_good_hosts_have_no_problems() -> None:
    assert check({}) == []


LISTENER = {"port": 10250, "protocol": "tcp", "address": "::", "process": "nginx", "pid": 77}
SWAP = {"name": "/dev/sda2", "type": "partition", "size_mib": 9000, "used_mib": 7000, "priority": -2}
GPU = {"address": "0000:03:00.0", "device_id": T4, "driver": ""}
ROUTE = {"destination": "10.244.7.0/24", "gateway": "", "interface": "docker0", "source": ""}
REPOSITORY = {"name": "Kubernetes", "uri": "http://r/", "error": "", "missing": {}, "available": {}, "conflicts": []}
PACKAGE = {"nvidia-driver": "535.261.03-1~deb12u1"}
CUDA: dict[str, Any] = {
    "loaded_version": "580.178.04",
    "packages": {"nvidia-open-580": "580.178.04-1"},
    "origin": "cuda_repository",
}
WORKER = {"role": "worker", "begun": True, "finished": True, "ca_hashes": ["sha256:b"], "server": "https://x:6443"}
CONTROL_PLANE = {"role": "control_plane", "begun": True, "finished": True, "ca_hashes": ["sha256:a"], "server": ""}


@pytest.mark.parametrize(
    ("source", "version", "driver", "needed"),
    [
        ("cuda_repository", "580.178.04", {}, True),
        ("cuda_repository", "auto", {}, True),
        ("cuda_repository", "580.178.04", CUDA, False),
        ("cuda_repository", "auto", CUDA, False),
        ("cuda_repository", "595.91.07", CUDA, True),
        ("distribution", "580.178.04", {}, True),
        ("distribution", "580.178.04", {"origin": "distribution", "loaded_version": "550.163.01"}, False),
        ("distribution", "580.178.04", {"origin": "distribution", "loaded_version": ""}, True),
        ("preinstalled", "580.178.04", {}, False),
        ("daemonset", "580.178.04", {}, False),
    ],
)
def test_disk_space_is_only_required_if_a_driver_will_be_installed(
    source: str, version: str, driver: dict[str, Any], needed: bool
) -> None:
    none = {"loaded_version": "", "packages": {}, "origin": "none"}
    changes = {
        "gpu1.facts.disks.3.free_mib": 10,
        "gpu1.facts.nvidia_driver": {**none, **driver},
        "gpu1.settings.nvidia_driver_source": source,
        "gpu1.settings.nvidia_driver_version": version,
    }
    found = [problem for problem in check(changes) if "/boot" in problem["what"]]
    assert len(found) == needed
    assert not [problem for problem in check({**changes, "gpu1.facts.gpus": []}) if "/boot" in problem["what"]]


@pytest.mark.parametrize(
    ("changes", "host", "words"),
    [
        ({"gpu1.facts.resolver.systemd_resolved": True}, "gpu1", ["no such file", "Set kubeadm_resolv_conf"]),
        (
            {"gpu1.facts.resolver.files": {"/etc/resolv.conf": ["127.0.0.53", "::1"]}},
            "gpu1",
            [
                "/etc/resolv.conf contains no name server that pods can reach (127.0.0.53, ::1)",
                "Set kubeadm_resolv_conf",
            ],
        ),
        ({"gpu1.facts.resolver.files": {"/etc/resolv.conf": []}}, "gpu1", ["contains no name server"]),
        ({"gpu1.settings.resolv_conf": "/etc/upstream.conf"}, "gpu1", ["in /etc/upstream.conf", "no such file"]),
        (
            {
                "cp1.facts.cluster": {**CONTROL_PLANE, "ca_hashes": ["sha256:b"]},
                "gpu1.facts.cluster": WORKER,
                "gpu1.facts.resolver.kubelet": "/run/systemd/resolve/resolv.conf",
            },
            "gpu1",
            [
                "Set resolvConf to /etc/resolv.conf in this file",
                "systemctl restart kubelet",
                "/var/lib/kubelet/config.yaml",
            ],
        ),
        ({"cp1.facts.is_root": False}, "cp1", ["not root", "ansible_become_user"]),
        (
            {"cp1.facts.is_root": False, "cp1.settings.become": False},
            "cp1",
            ["ansible_become=false", "Remove ansible_become from the inventory"],
        ),
        ({"cp1.facts.os": {"key": "fedora 42", "pretty_name": "Fedora 42"}}, "cp1", ["Fedora 42", "Debian 13"]),
        ({"cp1.facts.architecture": "arm64"}, "cp1", ["arm64"]),
        ({"cp1.facts.python": "3.8.10"}, "cp1", ["3.8.10", "3.9"]),
        (
            {"cp1.facts.kernel_modules": {"br_netfilter": "missing"}},
            "cp1",
            ["6.1.0-40-amd64", "br_netfilter", "reboot; otherwise, install the modules that belong to this kernel"],
        ),
        (
            {"gpu1.facts.kernel_modules": {"vxlan": "missing", "nf_conntrack": "missing", "overlay": "builtin"}},
            "gpu1",
            ["no module nf_conntrack, vxlan"],
        ),
        (
            {"gpu1.facts.kernel_modules": {"ip_tables": "missing", "nf_tables": "missing"}},
            "gpu1",
            ["no module ip_tables nor nf_tables", "kube-proxy"],
        ),
        (
            {
                "gpu1.facts.kernel_modules": {"vxlan": "missing"},
                "gpu1.facts.kernel": "6.12.43+deb13-cloud-amd64",
            },
            "gpu1",
            ["install linux-image-amd64"],
        ),
        ({"cp1.facts.cgroup_version": 1}, "cp1", ["cgroup v1"]),
        ({"cp1.facts.memory_mib": 1699}, "cp1", ["1699 MiB", "1700"]),
        ({"cp1.facts.cpus": 1}, "cp1", ["1 processors", "2"]),
        ({"gpu1.facts.memory_mib": 500}, "gpu1", ["500 MiB", "700", "preflight_worker_memory_mib"]),
        (
            {"cp1.facts.disks.0.free_mib": 9000, "cp1.facts.disks.1.free_mib": 9000},
            "cp1",
            ["/usr, /var/lib/containerd has", "9000 MiB free", "10000 MiB are needed", "lower preflight_disk_mib"],
        ),
        (
            {"gpu1.facts.disks.0.free_mib": 12000},
            "gpu1",
            ["/usr, /var/lib/containerd, /var/lib/dkms has", "12000 MiB free", "13000 MiB are needed"],
        ),
        (
            {"gpu1.facts.disks.3.free_mib": 150},
            "gpu1",
            ["The disk of /boot has 150 MiB free, but 200 MiB are needed", "preflight_driver_disk_mib"],
        ),
        (
            {"gpu1.facts.disks.1.total_mib": 140000},
            "gpu1",
            ["/var/lib/containerd has 20000 MiB free, less than 15 %", "Free 1000 MiB", "imagefs.available: 5%}"],
        ),
        ({"gpu1.facts.swaps": [SWAP]}, "gpu1", ["7000 MiB", "6000 MiB", "/dev/sda2"]),
        (
            {"gpu1.facts.swaps": [{**SWAP, "origin": "fstab (/etc/fstab)"}]},
            "gpu1",
            ["/dev/sda2, turned on by fstab (/etc/fstab)"],
        ),
        ({"gpu1.facts.listeners": [LISTENER]}, "gpu1", ["10250/tcp", "nginx (process 77)"]),
        (
            {"gpu1.facts.firewall": {"tool": "ufw", "active": True, "blocks": ["10250/tcp"]}},
            "gpu1",
            ["ufw", "blocks 10250/tcp", "ufw allow 10250/tcp"],
        ),
        (
            {"gpu1.facts.firewall": {"tool": "firewalld", "active": True, "blocks": ["10250/tcp"]}},
            "gpu1",
            ["firewall-cmd --permanent --add-port=10250/tcp", "--reload"],
        ),
        (
            {"gpu1.facts.firewall": {"tool": "ufw", "active": True, "blocks": None}},
            "gpu1",
            ["can't be read", "6443/tcp"],
        ),
        # The ports are closed on the interface that has the node's address.
        (
            {
                "gpu1.facts.firewall": {
                    "tool": "iptables",
                    "active": True,
                    "blocks": [],
                    "interfaces": {"tailscale0": [], "eth0": ["8472/udp"]},
                }
            },
            "gpu1",
            ["iptables", "blocks 8472/udp"],
        ),
        *(
            ({"gpu1.facts.firewall": {**REJECTING, "tool": tool}}, "gpu1", ["pods of different nodes", "FORWARD", do])
            for tool, do in (
                ("iptables", "iptables -I FORWARD -s 10.244.0.0/16 -j ACCEPT"),
                ("ufw", "iptables -I FORWARD -d 10.244.0.0/16 -j ACCEPT"),
                ("firewalld", "--zone=trusted --add-source=10.244.0.0/16"),
                ("nftables", "ip saddr 10.244.0.0/16 accept"),
            )
        ),
        # The packets of pods are rejected on the interface that has the node's address.
        (
            {"gpu1.facts.firewall": {**REJECTING, "tool": "iptables", "forward": "", "forwards": {"eth0": "mine"}}},
            "gpu1",
            ["pods of different nodes", "chain mine"],
        ),
        ({"gpu1.settings.node_name": "gpu_1"}, "gpu1", ["'gpu_1'", "cluster_node_name"]),
        ({"gpu1.settings.node_name": "localhost"}, "gpu1", ["localhost"]),
        ({"gpu1.settings.node_name": ""}, "gpu1", ["''"]),
        ({"gpu1.settings.node_name": "cp1"}, "", ["cp1, gpu1", "same node name"]),
        ({"gpu1.facts.machine_id": f"{11:032x}"}, "", ["cp1, gpu1", "machine ID", "systemd-machine-id-setup"]),
        ({"gpu1.settings.node_address": ""}, "gpu1", ["no default route", "192.168.7.12"]),
        ({"gpu1.settings.node_address": "10.9.9.9"}, "gpu1", ["10.9.9.9", "not on this host", "192.168.7.12"]),
        ({"gpu1.facts.clock_offset": 45.0}, "gpu1", ["45 s ahead of", "timedatectl"]),
        ({"gpu1.facts.clock_offset": -3600.0}, "gpu1", ["3600 s behind"]),
        ({"gpu1.facts.routes.1": ROUTE}, "gpu1", ["cluster_pod_network", "10.244.7.0/24", "docker0"]),
        (
            {"gpu1.facts.repositories": [{**REPOSITORY, "error": "http://r/Packages.gz: no route to host"}]},
            "gpu1",
            ["Kubernetes can't be read: http://r/Packages.gz: no route to host", "cluster_http_proxy"],
        ),
        (
            {
                "gpu1.facts.repositories": [
                    {**REPOSITORY, "missing": {"kubelet": "1.36.4-1.1"}, "available": {"kubelet": ["1.36.3-1.1"]}}
                ]
            },
            "gpu1",
            ["does not contain kubelet 1.36.4-1.1", "It contains 1.36.3-1.1"],
        ),
        (
            {
                "gpu1.facts.repositories": [
                    {**REPOSITORY, "conflicts": [{"file": "/etc/apt/x.list", "line": 3, "uri": "u", "shared": False}]}
                ]
            },
            "gpu1",
            ["/etc/apt/x.list line 3", "Signed-By"],
        ),
        *(
            (
                {
                    "gpu1.facts.repositories": [
                        {**REPOSITORY, "key": {"url": "http://r/key", "kind": bad, "cause": "X"}}
                    ]
                },
                "gpu1",
                [f"The key of the repository Kubernetes {what}: X", "http://r/key", do],
            )
            for bad, what, do in (
                ("unexpected", "is not the expected one", "add it to kubeadm_repository_key_fingerprints"),
                ("expired", "has expired", "Check the host's clock"),
                ("unreachable", "can't be read", "a mirror (kubeadm_repository_url) must also contain this file"),
                ("unreadable", "can't be read", "it may be a proxy"),
            )
        ),
        ({"gpu1.facts.installed": {"containerd": "1.6.20", "runc": "1.1"}}, "gpu1", ["containerd 1.6.20, runc 1.1"]),
        ({"gpu1.settings.expected_gpus": 8}, "gpu1", ["8 GPUs are expected", "has 4"]),
        ({"cp1.settings.expected_gpus": 1}, "cp1", ["1 GPUs are expected", "has 0"]),
        ({"gpu1.facts.gpus.3.driver": "vfio-pci"}, "gpu1", ["virtual machines", "0000:03:00.0"]),
        ({"gpu1.facts.gpus.0.device_id": "0xfff0"}, "gpu1", ["10de:fff0", "nvidia_driver_modules"]),
        (
            {"gpu1.facts.gpus.0.device_id": V100, "gpu1.settings.nvidia_driver_modules": "open"},
            "gpu1",
            ["Volta", "open kernel modules", "proprietary"],
        ),
        (
            {"gpu1.facts.gpus.0.device_id": RTX_5090, "gpu1.settings.nvidia_driver_modules": "proprietary"},
            "gpu1",
            ["Blackwell", "proprietary kernel modules", "nvidia_driver_modules=auto"],
        ),
        (
            {"gpu1.facts.gpus.0.device_id": V100, "gpu1.settings.nvidia_driver_version": "595.91.07"},
            "gpu1",
            ["Volta", "595.91.07", "580 is the last"],
        ),
        (
            {"gpu1.settings.gpu_sharing": {"mode": "mig", "layout": "all-1g.5gb"}},
            "gpu1",
            ["MIG is configured", "Turing GPUs can't be partitioned", "cluster_gpu_sharing"],
        ),
        (
            {
                "gpu1.settings.nvidia_driver_source": "daemonset",
                "gpu1.settings.nvidia_driver_root": "/opt/nvidia/driver",
            },
            "",
            ["different directories: / on gpu2; /opt/nvidia/driver on gpu1", "nvidia_driver_source=daemonset or none"],
        ),
        ({"gpu1.settings.nvidia_driver_version": "1.2.3"}, "gpu1", ["1.2.3", "580.178.04, 595.91.07"]),
        (
            {"gpu1.facts.os": {"key": "Debian 13", "pretty_name": "Debian 13"}},
            "gpu1",
            ["is not in NVIDIA's repository for Debian 13", "For Debian 13, the table contains 595.91.07"],
        ),
        (
            {
                "gpu1.settings.nvidia_driver_version": "auto",
                "gpu1.settings.driver_choice": {"version": "", "why": "no version fits", "advice": "Make pools"},
            },
            "gpu1",
            ["auto, but no version can be chosen: no version fits", "Make pools"],
        ),
        (
            {
                "gpu1.settings.nvidia_driver_version": "auto",
                "gpu1.settings.driver_choice": {"version": "580.178.04", "why": "", "advice": ""},
                "gpu1.settings.nvidia_driver_upgrading": True,
            },
            "gpu1",
            ["No version is set", "-e nvidia_driver_version=VERSION"],
        ),
        (
            {
                "gpu1.settings.nvidia_driver_version": "auto",
                "gpu1.settings.driver_choice": {"version": "595.91.07", "why": "", "advice": ""},
                "gpu1.facts.nvidia_driver": {
                    "loaded_version": "570.1.02",
                    "packages": {"nvidia-open-570": "570.1.02-1"},
                    "origin": "cuda_repository",
                },
            },
            "gpu1",
            ["570.1.02", "not the wanted version 595.91.07"],
        ),
        ({"gpu1.facts.gpus.0.device_id": B200}, "gpu1", ["NVLink 5 (B200 GPUs)", "nvlsm", "preinstalled"]),
        ({"gpu1.facts.gpus.0.device_id": B300}, "gpu1", ["NVLink 5 (B300 GPUs)", "operator"]),
        ({"gpu1.facts.nvlink_bridges": ["mlx5_4", "mlx5_5"]}, "gpu1", ["bridges mlx5_4, mlx5_5", "ib_umad"]),
        (
            {
                "gpu1.facts.os": {"key": "Debian 13", "pretty_name": "Debian 13"},
                "gpu1.facts.kernel": "6.12.117+deb13-cloud-amd64",
                "gpu1.settings.nvidia_driver_source": "distribution",
                "gpu1.settings.nvidia_driver_version": "550.163.01",
            },
            "gpu1",
            ["550.163.01 does not build for the kernel 6.12.117+deb13-cloud-amd64", "pci_resize_resource"],
        ),
        (
            {
                "gpu1.facts.nvidia_driver": {
                    "loaded_version": "535.261.03",
                    "packages": PACKAGE,
                    "origin": "distribution",
                }
            },
            "gpu1",
            ["535.261.03", "distribution's packages", "nvidia_driver_replace_foreign=true", "preinstalled"],
        ),
        (
            {"gpu1.facts.nvidia_driver": {"loaded_version": "580.178.04", "packages": {}, "origin": "runfile"}},
            "gpu1",
            [".run file"],
        ),
        (
            {"gpu1.facts.nvidia_driver": {**CUDA, "packages": {"cuda-drivers": "595.91.07-1"}}},
            "gpu1",
            ["595.91.07", "not the wanted version 580.178.04", "nvidia_driver_version"],
        ),
        ({"gpu1.settings.nvidia_driver_source": "preinstalled"}, "gpu1", ["No NVIDIA driver is loaded"]),
        (
            {"gpu1.settings.nvidia_driver_source": "operator", "gpu1.facts.nvidia_driver": CUDA},
            "gpu1",
            ["GPU Operator is configured to install one", "nvidia_driver_source=preinstalled"],
        ),
        (
            {"gpu1.settings.nvidia_driver_source": "distribution", "gpu1.facts.nvidia_driver": CUDA},
            "gpu1",
            ["NVIDIA's CUDA repository", "replace_foreign"],
        ),
        (
            {"gpu1.settings.nvidia_driver_source": "daemonset", "gpu1.facts.nvidia_driver": CUDA},
            "gpu1",
            ["comes from the host's packages"],
        ),
        ({"gpu1.facts.secure_boot": True}, "gpu1", ["Secure Boot is on", "DKMS"]),
        (
            {"gpu1.facts.secure_boot": True, "gpu1.settings.nvidia_driver_source": "distribution"},
            "gpu1",
            ["Secure Boot is on", "Turn off Secure Boot"],
        ),
        (
            {"cp1.facts.cluster": CONTROL_PLANE, "gpu1.facts.cluster": WORKER},
            "gpu1",
            ["https://x:6443", "cp1 has another CA", "kubeadm reset"],
        ),
        ({"gpu1.facts.cluster": WORKER}, "gpu1", ["cp1 has no cluster yet"]),
        ({"gpu1.facts.cluster": CONTROL_PLANE}, "gpu1", ["this host is a control plane".capitalize()]),
        ({"cp1.facts.cluster": WORKER}, "cp1", ["worker of another cluster"]),
    ],
)
def test_each_rule_names_host_cause_and_remedy(changes: dict[str, Any], host: str, words: list[str]) -> None:
    problems = check(changes)
    assert [problem["host"] for problem in problems] == [host], problems
    text = " ".join(str(problems[0][field]) for field in ("what", "where", "why", "do"))
    assert all(word in text for word in words), text
    assert all(problems[0][field] for field in ("what", "where", "why", "do"))


@pytest.mark.parametrize(
    ("system", "enabled", "missing"),
    [
        ("Debian 12", ["main"], "contrib, non-free, non-free-firmware"),
        ("Debian 13", ["contrib", "main", "non-free"], "non-free-firmware"),
        ("Ubuntu 24.04", ["main", "universe"], "restricted"),
        ("Ubuntu 24.04", ["main", "restricted"], ""),
    ],
)
def test_distribution_driver_requires_apt_components(system: str, enabled: list[str], missing: str) -> None:
    changes = {
        "gpu1.facts.os": {"key": system, "pretty_name": system},
        "gpu1.facts.apt_components": enabled,
        "gpu1.settings.nvidia_driver_source": "distribution",
    }
    settings = {"distributions": ["Debian 12", "Debian 13", "Ubuntu 24.04"]}
    assert [problem["what"] for problem in check(changes, **settings)] == (
        [f"The apt sources of this host do not enable {missing}"] if missing else []
    )
    assert check({**changes, "gpu1.facts.distribution_drivers": ["nvidia-smi"]}, **settings) == []
    there = {"loaded_version": "", "packages": {"nvidia-smi": "580.178.04-1"}, "origin": "distribution"}
    assert check({**changes, "gpu1.facts.nvidia_driver": there}, **settings) == []
    without: dict[str, Any] = {"gpu1.facts.gpus": [], "gpu1.settings.expected_gpus": None}
    assert check({**changes, **without}, **settings) == []


@pytest.mark.parametrize(
    ("system", "version", "kernel", "refused"),
    [
        ("Debian 12", "535.261.03", "6.1.0-50-cloud-amd64", False),
        ("Debian 12", "535.261.03", "6.1.0-53-amd64", True),
        ("Debian 12", "535.261.03", "6.1.0-56-cloud-amd64", True),
        ("Debian 12", "535.261.03", "6.1.140-custom", False),
        ("Debian 12", "535.261.03", "6.8.12-9-pve", False),
        ("Debian 12", "535.261.03", "6.12.95+deb12-amd64", False),
        ("Debian 12", "535.261.03", "6.12.117+deb12-amd64", True),
        ("Debian 12", "535.261.03", "odd", False),
        ("Debian 12", "535.309.01", "6.1.0-56-cloud-amd64", False),
        ("Debian 13", "550.163.01", "6.12.63+deb13-amd64", False),
        ("Debian 13", "550.163.01", "6.12.96+deb13-amd64", False),
        ("Debian 13", "550.163.01", "6.12.100+deb13-amd64", True),
        ("Debian 13", "550.163.01", "6.12.107+deb13-amd64", True),
        ("Debian 13", "550.163.01", "6.18.39+deb13-amd64", False),
        ("Debian 13", "550.163.01", "7.3.4+deb13-amd64", True),
        ("Debian 13", "550.163.01", "6.12.117+deb13-cloud-amd64", True),
        ("Debian 13", "550.163.01", "6.12.121-amd64", True),
        ("Debian 13", "550.163.01", "6.16.3+deb13-amd64", False),
    ],
)
def test_debian_driver_is_refused_for_newer_kernels(system: str, version: str, kernel: str, refused: bool) -> None:
    changes = {
        "gpu1.facts.os": {"key": system, "pretty_name": system},
        "gpu1.facts.kernel": kernel,
        "gpu1.settings.nvidia_driver_source": "distribution",
        "gpu1.settings.nvidia_driver_version": version,
    }
    found = [problem["what"] for problem in check(changes, distributions=["Debian 12", "Debian 13"])]
    assert found == ([f"Debian's driver {version} does not build for the kernel {kernel}"] if refused else [])


UBUNTU = {"key": "Ubuntu 24.04", "pretty_name": "Ubuntu 24.04"}


def test_signed_ubuntu_modules_are_suggested_for_secure_boot() -> None:
    changes = {"gpu1.facts.secure_boot": True, "gpu1.facts.os": UBUNTU}
    table = {"580.178.04": {"packages": {"Debian 12": "1", "Ubuntu 24.04": "1"}}}
    settings = {"distributions": ["Debian 12", "Ubuntu 24.04"], "nvidia_driver_versions": table}
    (problem,) = check(changes, **settings)
    assert "Use Ubuntu's own driver, whose modules are signed: nvidia_driver_source=distribution" in problem["do"]
    assert check({**changes, "gpu1.settings.nvidia_driver_source": "distribution"}, **settings) == []


@pytest.mark.parametrize("source", ["preinstalled", "operator"])
def test_nvlink_5_is_accepted_with_an_unmanaged_driver(source: str) -> None:
    loaded = {"loaded_version": "580.178.04", "packages": {}, "origin": "other"}
    changes = {"gpu1.facts.nvlink_bridges": ["mlx5_4"], "gpu1.facts.nvidia_driver": loaded}
    assert check({**changes, "gpu1.settings.nvidia_driver_source": source}) == []


def test_proprietary_modules_are_refused_since_615() -> None:
    table = {"615.71.09": {"packages": {"Debian 12": "615.71.09-1"}}}
    changes = {"gpu1.settings.nvidia_driver_version": "615.71.09", "gpu1.settings.nvidia_driver_modules": "proprietary"}
    others = {f"{name}.settings.nvidia_driver_version": "615.71.09" for name in ("cp1", "gpu2")}
    (problem,) = check({**changes, **others}, nvidia_driver_versions=table)
    assert "no proprietary kernel modules of branch 615" in problem["why"]


def test_proprietary_modules_are_suggested_for_new_kernels_on_debian_13() -> None:
    changes = {
        "gpu1.facts.os": {"key": "Debian 13", "pretty_name": "Debian 13"},
        "gpu1.facts.kernel": "6.12.117+deb13-amd64",
        "gpu1.settings.nvidia_driver_source": "distribution",
        "gpu1.settings.nvidia_driver_version": "550.163.01",
    }
    (problem,) = check(changes)
    assert "nvidia_driver_modules=proprietary" in problem["do"]
    assert check({**changes, "gpu1.settings.nvidia_driver_modules": "proprietary"}) == []
    assert check({**changes, **{f"gpu1.facts.gpus.{number}.device_id": V100 for number in range(4)}}) == []


def test_duplicate_node_address_is_reported() -> None:
    problems = check(
        {"gpu1.settings.node_address": "192.168.7.11", "gpu1.facts.addresses.0.address": "192.168.7.11"},
    )
    assert [problem["host"] for problem in problems] == [""]
    assert "cp1, gpu1 have the same node address 192.168.7.11" in problems[0]["what"]


def test_unique_addresses_are_suggested_for_hosts_behind_nat() -> None:
    nat = {"address": "10.0.2.15", "prefix": 24, "interface": "eth0", "family": "inet"}
    bridge = {"address": "172.17.0.1", "prefix": 16, "interface": "docker0", "family": "inet"}
    changes: dict[str, Any] = {}
    for number, host in enumerate(("cp1", "gpu1", "gpu2"), 11):
        own = {**nat, "address": f"192.168.56.{number}", "interface": "eth1"}
        changes |= {f"{host}.settings.node_address": "10.0.2.15", f"{host}.facts.addresses": [nat, bridge, own]}
    (problem,) = check(changes)
    assert "cp1, gpu1, gpu2 have the same node address 10.0.2.15" in problem["what"]
    assert "192.168.56.11 for cp1, 192.168.56.12 for gpu1" in problem["do"]
    changes["gpu2.facts.addresses"] = [nat]
    (problem,) = check(changes)
    assert "remove the duplicate" in problem["do"]


@pytest.mark.parametrize("forms", [True, False])
@pytest.mark.parametrize("hosts", [machines(), None])
def test_new_cluster_requires_its_control_plane_in_the_run(forms: bool, hosts: dict[str, Any] | None) -> None:
    found = copy.deepcopy(hosts) if hosts else {**finished(), "gpu2": reading("gpu2", 13, 2)}
    found["cp1"]["left_out"] = True
    settings = {**SETTINGS, "forms_cluster": forms}
    kinds = [problem["kind"] for problem in find(found, settings)]
    assert kinds == ["control_plane_left_out"] * bool(forms and hosts)
    # A run that only checks hosts may be limited to some of them.
    notes = preflight_notes(found, settings)
    assert [note.partition(",")[0] for note in notes] == ["--limit leaves out the control plane cp1"] * bool(
        hosts and not forms
    )


def test_damaged_control_plane_outside_of_the_run_is_not_said_to_be_new() -> None:
    found = {**finished(), "gpu2": reading("gpu2", 13, 2)}
    found["cp1"]["left_out"] = True
    found["cp1"]["facts"]["cluster"].update(finished=False, damaged=["/var/lib/kubelet/config.yaml"])
    (problem,) = find(found, {**SETTINGS, "forms_cluster": True})
    what = "--limit leaves out the control plane cp1, whose files are empty, cut off or missing: "
    assert problem["what"] == f"{what}/var/lib/kubelet/config.yaml"
    assert "first time" not in problem["do"]


@pytest.mark.parametrize(("ahead", "named"), [(30, []), (31, ["cp1", "gpu1"]), (-31, ["cp1", "gpu1"])])
def test_both_hosts_with_different_clocks_are_named(ahead: int, named: list[str]) -> None:
    hosts = {name: each for name, each in machines().items() if name != "gpu2"}
    for name, offset in {"cp1": 0.5, "gpu1": 0.5 + ahead}.items():
        hosts[name]["facts"]["clock_offset"] = offset
    problems = find(hosts, SETTINGS)
    assert [(each["kind"], each["host"]) for each in problems] == [("clock_differs", name) for name in named]


def test_both_clocks_are_named_despite_rounding() -> None:
    hosts = {name: each for name, each in machines().items() if name != "gpu2"}
    hosts["cp1"]["facts"]["clock_offset"], hosts["gpu1"]["facts"]["clock_offset"] = 65.24, 16.949
    assert {each["host"] for each in find(hosts, SETTINGS) if each["kind"] == "clock_differs"} == {"cp1", "gpu1"}


def test_pod_network_that_overlaps_a_host_network_names_every_host() -> None:
    problems = check({}, cluster_pod_network="192.168.0.0/16")
    assert {problem["host"] for problem in problems} == {"cp1", "gpu1", "gpu2"}
    assert any("192.168.7.0/24" in problem["what"] for problem in problems)


@pytest.mark.parametrize(
    ("error", "proxied", "words"),
    [
        ("Tunnel connection failed: 407 Proxy Authentication Required", True, "The proxy rejects this user"),
        ("the server answered 407 authenticationrequired", False, "requires a user"),
        ("Tunnel connection failed: 403 Forbidden", True, "allow list"),
        ("the server answered 403 Forbidden", False, "mirror's permissions"),
        ("[Errno 111] Connection refused", True, "No proxy listens at that address"),
        ("[Errno 111] Connection refused", False, "No server listens there"),
        ("[Errno -2] Name or service not known", True, "Check the proxy's name"),
        ("[Errno -3] Temporary failure in name resolution", False, "this host's DNS"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", True, "update-ca-certificates"),
        ("the server answered 401 Unauthorized", False, "cluster_apt_credentials"),
        ("https://mirror.example.org/401/Packages.gz: timed out", False, "Let this host through to the address"),
        ("timed out", False, "Let this host through to the address"),
        ("something else", False, "configure a mirror"),
    ],
)
def test_unreadable_repository_has_the_remedy_for_its_cause(error: str, proxied: bool, words: str) -> None:
    changes = {
        "gpu1.facts.repositories": [{**REPOSITORY, "error": f"Error while fetching Packages.gz: {error}"}],
        "gpu1.settings.proxied": proxied,
    }
    (problem,) = check(changes)
    assert words in problem["do"]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ({"unreachable": True, "msg": "Task failed: ssh: No route to host"}, ["be reached: ssh: No route to host"]),
        (
            {"failed": True, "msg": "Missing sudo password"},
            ["become root", ": Missing sudo password", "ask-become-pass"],
        ),
        (
            {"msg": "No start of json char found", "module_stderr": "sudo: a password is required", "rc": 1},
            ["become root", "a password is required"],
        ),
        (
            {"msg": "ansible-core requires a minimum of Python version 3.9. Current version: 3.7.3 (default)"},
            ["Python is too old", "3.7.3", "ansible_python_interpreter"],
        ),
        ({"msg": "x", "module_stderr": "/bin/sh: 1: /usr/bin/python3: not found"}, ["apt-get install python3"]),
        (
            {"msg": "Error while reading the network: there is no program ip on this host"},
            ["network can't be read", "apt-get install iproute2"],
        ),
        ({"msg": "Something else"}, ["can't be read: Something else"]),
        ({}, ["no reason given"]),
    ],
)
def test_unreadable_host_is_reported(failure: dict[str, Any], words: list[str]) -> None:
    problems = check({"gpu1.facts": {}, "gpu1.failure": failure})
    assert [problem["host"] for problem in problems] == ["gpu1"]
    text = " ".join(problems[0].values())
    assert all(word in text for word in words), text


def finished() -> dict[str, Any]:
    """Return the state of three hosts of a running cluster."""
    hosts = machines()
    for name, state in hosts.items():
        facts = state["facts"]
        facts["cluster"] = dict(CONTROL_PLANE if name == "cp1" else WORKER, ca_hashes=["sha256:a"])
        programs = {10250: "kubelet", 10256: "kube-proxy"}
        if name == "cp1":
            programs |= {
                6443: "kube-apiserver",
                2379: "etcd",
                10257: "kube-controller-manager",
                10259: "kube-scheduler",
            }
        facts["listeners"] = [
            {"port": port, "protocol": "tcp", "address": "::", "process": program, "pid": port}
            for port, program in programs.items()
        ]
        facts["routes"] += [
            {"destination": "10.244.1.0/24", "gateway": "", "interface": "cni0", "source": ""},
            {"destination": "10.244.2.0/24", "gateway": "10.244.2.0", "interface": "flannel.1", "source": ""},
            {"destination": "10.244.3.0/24", "gateway": "192.168.7.13", "interface": "eth0", "source": ""},
        ]
        facts["addresses"] += [
            {"address": "10.244.1.1", "prefix": 24, "interface": "cni0", "family": "inet"},
            {"address": "10.244.1.0", "prefix": 32, "interface": "flannel.1", "family": "inet"},
        ]
        facts["disks"][0]["free_mib"] = facts["disks"][1]["free_mib"] = 500
        facts["nvidia_driver"] = CUDA
        facts["installed"] = {"containerd.io": "2.3.6-1~debian.12~bookworm"}
    return hosts


def test_finished_cluster_has_no_problems() -> None:
    assert find(finished(), SETTINGS) == []


def test_truncated_name_of_a_cluster_program_is_recognized() -> None:
    hosts = finished()
    hosts["cp1"]["facts"]["listeners"][4]["process"] = "kube-controller"
    assert find(hosts, SETTINGS) == []


def test_new_worker_can_join_a_finished_cluster() -> None:
    assert find({**finished(), "gpu2": reading("gpu2", 13, 2)}, SETTINGS) == []


def test_interrupted_kubeadm_is_accepted() -> None:
    begun = {"role": "", "begun": True, "finished": False, "ca_hashes": [], "server": ""}
    assert check({"gpu1.facts.cluster": begun, "gpu1.facts.listeners": [{**LISTENER, "process": "kubelet"}]}) == []


def test_unmanaged_kubelet_without_a_cluster_is_reported() -> None:
    (problem,) = check({"gpu1.facts.listeners": [{**LISTENER, "process": "kubelet"}]})
    assert "kubelet" in problem["what"]


def test_cgroup_v1_is_accepted_if_configured() -> None:
    assert check({"cp1.facts.cgroup_version": 1}, kubelet_configuration={"failCgroupV1": False}) == []


def test_default_disk_thresholds_do_not_apply_if_overridden() -> None:
    nearly_full = {"gpu1.facts.disks.1.total_mib": 140000}
    assert check(nearly_full, kubelet_configuration={"evictionHard": {"imagefs.available": "10Gi"}}) == []
    assert check({**nearly_full, "gpu1.facts.cluster.finished": True}) == []


def test_zram_and_small_swap_are_accepted() -> None:
    assert check({"cp1.facts.swaps": [{**SWAP, "name": "/dev/zram0"}, {**SWAP, "used_mib": 100}]}) == []


def test_unmanaged_driver_is_accepted_if_it_may_be_replaced_or_kept() -> None:
    foreign = {"loaded_version": "535.261.03", "packages": PACKAGE, "origin": "distribution"}
    assert check({"gpu1.facts.nvidia_driver": foreign, "gpu1.settings.nvidia_driver_replace_foreign": True}) == []
    assert check({"gpu1.facts.nvidia_driver": foreign, "gpu1.settings.nvidia_driver_source": "preinstalled"}) == []
    assert check({"cp1.facts.nvidia_driver": foreign}) == [], "without a GPU its driver is nobody's concern"


@pytest.mark.parametrize(("origin", "refused"), [("other", 0), ("runfile", 1)])
def test_driver_installed_by_the_operator_is_accepted(origin: str, refused: int) -> None:
    loaded = {"loaded_version": "580.178.04", "packages": {}, "origin": origin}
    changes = {"gpu1.settings.nvidia_driver_source": "operator", "gpu1.facts.nvidia_driver": loaded}
    assert len(check(changes)) == refused


@pytest.mark.parametrize(("expected", "manager", "found"), [("/opt/a", "device_plugin", 1), ("/", "gpu_operator", 0)])
def test_driver_root_must_match_the_device_plugin(expected: str, manager: str, found: int) -> None:
    assert len(check({}, device_plugin_root=expected, gpu_manager=manager)) == found
    changes = {f"{host}.settings.nvidia_driver_root": "/opt/a" for host in ("gpu1", "gpu2")}
    assert check(changes, device_plugin_root="/opt/a", gpu_manager=manager) == [], "cp1 has no GPU"


def test_operator_driver_may_use_the_root_of_the_operator() -> None:
    changes = {
        "gpu1.settings.nvidia_driver_root": "/run/nvidia/driver",
        "gpu1.settings.nvidia_driver_source": "operator",
        "gpu1.facts.nvidia_driver": {"loaded_version": "", "packages": {}, "origin": "none"},
    }
    assert check(changes, device_plugin_root="/", gpu_manager="gpu_operator") == []
    elsewhere = {**changes, "gpu2.settings.nvidia_driver_root": "/opt/a"}
    (problem,) = check(elsewhere, device_plugin_root="/", gpu_manager="gpu_operator")
    assert "/opt/a on gpu2; /run/nvidia/driver on gpu1" in problem["what"]


def test_unlisted_version_is_accepted_for_an_upgrade() -> None:
    old = {"loaded_version": "570.1.02", "packages": {"nvidia-open-570": "570.1.02-1"}, "origin": "cuda_repository"}
    changes = {"gpu1.facts.nvidia_driver": old, "gpu1.settings.nvidia_driver_version": "570.1.02"}
    assert "not in the table" in check(changes)[0]["what"]
    assert check({**changes, "gpu1.settings.nvidia_driver_upgrading": True}) == []


def test_installed_driver_that_is_not_loaded_yet_is_accepted() -> None:
    assert check({"gpu1.facts.nvidia_driver": {**CUDA, "loaded_version": "570.133.20"}}) == []


def test_pinning_package_and_kernel_modules_are_not_driver_versions() -> None:
    packages = {**CUDA["packages"], "nvidia-driver-pinning-580": "580-1", "linux-modules-nvidia": "6.8.0-45.45+1"}
    assert check({"gpu1.facts.nvidia_driver": {**CUDA, "packages": packages}}) == []


def test_image_with_a_toolkit_without_support_for_the_gpu_is_reported() -> None:
    problems = check({"gpu1.facts.gpus.0.device_id": V100}, acceptance_image=f"{CHECK_IMAGE}13.0.0")
    assert [problem["host"] for problem in problems] == ["gpu1"]
    text = " ".join(str(value) for value in problems[0].values())
    for words in ("CUDA 13.0.0", "580.178.04", "acceptance_image", "CUDA 12.9 is the last", "vectoradd-cuda13.0.0"):
        assert words in text


def test_image_that_needs_a_newer_preinstalled_driver_is_reported() -> None:
    changes = {
        "gpu1.settings.nvidia_driver_source": "preinstalled",
        "gpu1.facts.nvidia_driver": {**CUDA, "loaded_version": "450.248.02"},
    }
    assert check(changes, acceptance_image=f"{CHECK_IMAGE}11.7.1") == []
    problems = check(changes, acceptance_image=f"{CHECK_IMAGE}12.5.0")
    assert [problem["host"] for problem in problems] == ["gpu1"]
    assert "450.248.02" in problems[0]["what"] and "525.60.13" in problems[0]["do"]


@pytest.mark.parametrize(
    ("image", "device"),
    [
        (f"{CHECK_IMAGE}12.5.0", T4),
        (f"{CHECK_IMAGE}13.3.0", T4),  # minor version compatibility
        (f"{CHECK_IMAGE}12.5.0", RTX_5090),  # older than the GPU, but has PTX
        (f"{CHECK_IMAGE}77.1", T4),  # not in the table
        ("registry/my-check:latest", V100),
        (f"{CHECK_IMAGE}11.7.1", V100),
    ],
)
def test_image_that_may_run_is_accepted(image: str, device: str) -> None:
    assert check({"gpu1.facts.gpus.0.device_id": device}, acceptance_image=image) == []


def test_image_is_not_reported_if_the_driver_does_not_support_the_gpu() -> None:
    changes = {"gpu1.facts.gpus.0.device_id": V100, "gpu1.settings.nvidia_driver_version": "595.91.07"}
    problems = check(changes, acceptance_image=f"{CHECK_IMAGE}13.0.0")
    assert ["580 is the last" in problem["why"] for problem in problems] == [True]


def test_secure_boot_is_accepted_with_a_loaded_driver() -> None:
    assert check({"gpu1.facts.secure_boot": True, "gpu1.facts.nvidia_driver": CUDA}) == []


def test_proprietary_modules_are_selected_for_old_gpus() -> None:
    assert check({"gpu1.facts.gpus.0.device_id": V100}) == []


def test_control_plane_outside_the_run_is_compared_but_not_checked() -> None:
    hosts = finished()
    hosts["cp1"]["left_out"] = True
    hosts["cp1"]["facts"]["memory_mib"] = 1
    assert find(hosts, SETTINGS) == []
    hosts["gpu1"]["facts"]["cluster"]["ca_hashes"] = ["sha256:b"]
    assert [problem["host"] for problem in find(hosts, SETTINGS)] == ["gpu1"]


def test_one_machine_may_be_in_both_groups() -> None:
    assert find({"cp1": machines()["cp1"]}, {**SETTINGS, "workers": ["cp1"]}) == []


def test_problems_of_the_cluster_come_first() -> None:
    problems = check(
        {
            "gpu2.facts.cpus": 0,
            "cp1.facts.cpus": 1,
            "gpu1.facts": {},
            "gpu1.failure": {"unreachable": True, "msg": "x"},
        },
        api={**SETTINGS["api"], "packages": {"kubernetes": "", "yaml": ""}},
    )
    assert [problem["host"] for problem in problems] == ["", "cp1", "gpu1", "gpu2"]


def test_invalid_input_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="bad input"):
        find({"cp1": {}}, SETTINGS)


def test_equal_problems_are_merged_in_the_report() -> None:
    problems = check({"gpu1.facts.cpus": 0, "gpu2.facts.cpus": 0, "cp1.facts.cpus": 1})
    text = preflight_report(problems)
    assert text.startswith("2 problems found")
    assert text.count("gpu1, gpu2\n") == 1 and "\ncp1\n  1. " in text and "  2. " in text
    assert preflight_report(problems[:1]).startswith("1 problem found")


@pytest.mark.parametrize(
    ("api", "delegate", "words"),
    [
        ({}, "localhost", []),
        ({"reach": "answered"}, "localhost", []),
        ({"reach": "unasked"}, "localhost", []),
        (
            {"reach": "silent", "error": "no answer within 10 s"},
            "localhost",
            ["192.168.7.11:6443 can't be reached from this controller: no answer", "cluster_api_tunnel=true"],
        ),
        ({"reach": "unreachable", "error": "No route to host"}, "bastion", ["reached from bastion: No route to host"]),
        (
            {"packages": {"kubernetes": "", "yaml": "6.0"}},
            "cp1",
            [
                "Python of cp1 (/usr/bin/python3) has no package kubernetes",
                "pip install 'kubernetes>=24.2.0'",
                "tunnel",
            ],
        ),
        ({"packages": {"kubernetes": "22.6.0", "yaml": "6.0"}}, "cp1", ["has kubernetes 22.6.0; 24.2.0 or newer"]),
        ({"packages": {"kubernetes": "24.2.0", "yaml": ""}}, "localhost", ["with PyYAML"]),
        ({"packages": {"kubernetes": "24.2.0", "yaml": "6"}}, "localhost", []),
        ({"unreachable": True, "msg": "timed out"}, "bastion", ["The host bastion", "can't be reached: timed out"]),
        ({"unreachable": True, "msg": "timed out"}, "cp1", []),
    ],
)
def test_api_must_be_reachable_from_the_delegate(api: dict[str, Any], delegate: str, words: list[str]) -> None:
    problems = check({}, api={**SETTINGS["api"], **api} if api else {}, api_delegate=delegate)
    assert len(problems) == bool(words)
    assert all(word in str(problems[0].values()).replace("\\", "") for word in words)


EXISTING = {
    "cp1.facts.cluster": {"role": "control_plane", "begun": True, "finished": True, "ca_hashes": [], "server": ""}
}
JOINED = {"gpu1.facts.cluster": {"role": "worker", "begun": True, "finished": True, "ca_hashes": [], "server": ""}}
NO_ROUTE = {"reach": "unreachable", "error": "No route to host"}
SILENT = {"reach": "silent", "error": "no answer within 3 s"}


@pytest.mark.parametrize(
    ("reached", "state", "verdict"),
    [
        ({"reach": "answered", "error": ""}, EXISTING, ""),
        # A refused connection shows that packets are delivered in both directions.
        ({"reach": "refused", "error": "Connection refused"}, {}, ""),
        ({"reach": "refused", "error": "Connection refused"}, EXISTING, ""),
        ({"reach": "unasked", "error": ""}, {}, ""),
        (SILENT, {}, "note"),
        (SILENT, EXISTING, "problem"),
        (SILENT, JOINED, "problem"),
        (NO_ROUTE, {}, "problem"),
        (NO_ROUTE, EXISTING, "problem"),
        # The endpoint is not the API's actual address.
        ({**SILENT, "endpoint": "203.0.113.9:6443"}, EXISTING, ""),
        # The same, but a joined kubelet uses this endpoint.
        ({**SILENT, "endpoint": "203.0.113.9:6443"}, JOINED, "problem"),
    ],
)
def test_workers_that_cannot_reach_the_control_plane_are_reported(
    reached: dict[str, Any], state: dict[str, Any], verdict: str
) -> None:
    found = {"endpoint": "192.168.7.11:6443", **reached}
    hosts, settings = changed({**state, "gpu1.facts.api_reach": found})
    unreached = [one for one in find(hosts, settings) if one["kind"] == "control_plane_unreachable"]
    notes = preflight_notes(hosts, settings)
    assert (len(unreached), len(notes)) == {"": (0, 0), "note": (0, 1), "problem": (1, 0)}[verdict]
    text = " ".join([*map(str, unreached), *notes])
    words = ["gpu1", f"API server at {found['endpoint']}: {found['error']}", "cluster_node_address"] if verdict else []
    assert all(word in text for word in words)


@pytest.mark.parametrize(
    ("sysctls", "note"),
    [
        ({}, ""),
        ({"net.core.somaxconn": 128}, ""),
        ({"fs.inotify.max_user_instances": 16384}, ""),
        ({"fs.inotify.max_user_instances": 256}, "max_user_instances to 256 (it is 128 now)"),
        ({"fs.inotify.max_user_watches": "65536"}, "raised to 524288"),
        ({"fs.inotify.max_user_watches": "many"}, ""),
    ],
)
def test_low_inotify_limits_in_the_inventory_are_a_note(sysctls: dict[str, Any], note: str) -> None:
    limits = {"max_user_instances": 128, "max_user_watches": 8192}
    hosts, settings = changed({"gpu1.facts.inotify": limits, "gpu1.settings.sysctls": sysctls})
    notes = preflight_notes(hosts, settings)
    assert find(hosts, settings) == [] and len(notes) == bool(note)
    assert all(text.startswith("gpu1: host_sysctls") and note in text for text in notes)


@pytest.mark.parametrize(
    ("hosts", "left_out", "forks", "awx", "note"),
    [
        (41, 0, 5, False, "41 hosts, 5 at a time. Every task takes 9 rounds. Add --forks 41 to the command"),
        (41, 0, 5, True, "Set awx_configure_forks to 41, or Forks in the job template."),
        (41, 0, "20", False, "--forks 41"),
        (11, 0, 5, False, "11 hosts, 5 at a time"),
        (250, 0, 20, False, "--forks 100 "),
        # Two rounds are acceptable, and more processes would overload the controller.
        *((hosts, 0, forks, False, "") for hosts, forks in ((1, 5), (10, 5), (41, 21), (40, 20), (250, 50))),
        (12, 2, 5, False, ""),
    ],
)
def test_too_few_forks_are_a_note(hosts: int, left_out: int, forks: Any, awx: bool, note: str) -> None:
    found = {f"gpu{place}": reading(f"gpu{place}", 10, 1) for place in range(hosts)}
    for name in list(found)[:left_out]:
        found[name]["left_out"] = True
    notes = preflight_notes(found, {**SETTINGS, "forks": forks, "awx": awx, "control_plane": []})
    assert len(notes) == bool(note) and all(note in text for text in notes)


def test_inotify_limits_match_those_of_the_role() -> None:
    variables = yaml.safe_load((ROOT / "roles/host/vars/main.yml").read_text())["_host_sysctl_minimums"]
    assert variables == {f"fs.inotify.{name}": value for name, value in INOTIFY.items()}


def test_unread_hosts_have_no_notes() -> None:
    assert preflight_notes({}, SETTINGS) == []
    hosts, settings = changed({"gpu1.facts": {}, "gpu1.failure": {"msg": "gone"}})
    assert preflight_notes(hosts, settings) == []
    with pytest.raises(AnsibleFilterError, match="listing the notes"):
        preflight_notes({"gpu1": {}}, SETTINGS)


@pytest.mark.parametrize(
    ("core", "python", "refused"),
    [
        ("2.19.4", "3.13.5", False),
        ("2.19.4", "3.14.0", True),
        ("2.20.0", "3.14.0", False),
        ("2.21.5", "3.15.0", True),
        ("2.30.0", "3.15.0", False),
    ],
)
def test_python_unsupported_by_ansible_core_is_reported(core: str, python: str, refused: bool) -> None:
    problems = check({"gpu1.facts.python": python}, ansible_core=core)
    assert [problem["host"] for problem in problems] == (["gpu1"] if refused else [])
    needed = f"an ansible-core that supports Python {python.rpartition('.')[0]} on"
    assert all(needed in problem["do"] for problem in problems)
    said = f"/usr/lib/python{python.rpartition('.')[0]}/ast.py line 1: SyntaxError"
    failed = {"facts": {}, "failure": {"msg": "MODULE FAILURE", "module_stderr": said}, "settings": {}}
    (problem,) = find({**machines(), "gpu2": failed}, {**SETTINGS, "ansible_core": core})
    assert (f"ansible-core {core} on the controller supports Python only up to" in problem["what"]) == refused


def test_k80_works_with_a_preinstalled_driver_470_and_an_older_image() -> None:
    changes = {
        "gpu1.facts.gpus.0.device_id": "0x102d",
        "gpu1.settings.nvidia_driver_source": "preinstalled",
        "gpu1.facts.nvidia_driver": {**CUDA, "loaded_version": "470.256.02"},
    }
    guide = (Path(__file__).resolve().parents[4] / "docs" / "node-pools.md").read_text()
    (image,) = re.findall(r"acceptance_image=(\S+)`", guide)
    assert check(changes, acceptance_image=image) == []
    (problem,) = check(changes, acceptance_image=f"{CHECK_IMAGE}12.5.0")
    assert "acceptance_image" in problem["where"]
