# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import gzip
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.undo import RENEWAL, Undo
from apiserver import ApiServer, Authority, rotated_kubeconfig
from dra_objects import device, resource_slice
from openpgp_keys import fingerprint, public_key

RELEASE = os.uname().release
BOOKWORM = 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'
NOBLE = 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n'
ADDRESSES = """
[{"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "scope": "host"}]},
 {"ifname": "eth0", "addr_info": [
   {"family": "inet", "local": "10.0.0.11", "prefixlen": 24, "scope": "global"},
   {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"}]}]
"""
ROUTES = """
[{"dst": "default", "gateway": "10.0.0.1", "dev": "eth0"},
 {"dst": "10.0.0.0/24", "dev": "eth0", "prefsrc": "10.0.0.11"}]
"""
IP = """case "$*" in
  "-j address show") cat <<'END'{addresses}END
  ;;
  "-j -4 route show") cat <<'END'{routes}END
  ;;
esac"""
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0947 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0 100 0 0 10 0
   1: 0B00000A:0947 0B00000A:9C40 01 00000000:00000000 00:00000000 00000000     0        0 55 1 0 100 0 0 10 0
"""
UDP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  10: 00000000:2118 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 0 2 0 0
"""
DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.178.04  Release Build\nGCC version: gcc 12.2.0\n"
STATUS = """\
Package: containerd.io
Status: hold ok installed
Architecture: amd64
Version: 2.3.6-1~debian.12~bookworm

Package: nvidia-open-580
Status: install ok installed
Architecture: amd64
Version: 580.178.04-1

Package: libnvidia-container1
Status: install ok installed
Architecture: amd64
Version: 1.20.1-1
"""
BLOCK = "# BEGIN gpulab.kubernetes\n127.0.0.1 api.lab.internal\n# END gpulab.kubernetes\n"
Read = Callable[..., dict[str, Any]]


class Host:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("etc/os-release", BOOKWORM)
        self.write("proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n")
        self.write("var/lib/dpkg/status", STATUS)

    def write(self, path: str, text: str | bytes) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        return place

    def pci(self, address: str, vendor: str, device: str, kind: str, driver: str = "") -> None:
        for name, value in (("vendor", vendor), ("device", device), ("class", kind)):
            self.write(f"sys/bus/pci/devices/{address}/{name}", f"{value}\n")
        if driver:
            target = self.root / f"sys/bus/pci/drivers/{driver}"
            target.mkdir(parents=True, exist_ok=True)
            (self.root / f"sys/bus/pci/devices/{address}/driver").symlink_to(target)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "root")


@pytest.fixture
def read(run_module: Any, programs: Any, host: Host) -> Read:
    programs.add("ip", IP.replace("{addresses}", ADDRESSES).replace("{routes}", ROUTES))
    programs.add("iptables-save", "exit 0")
    programs.add("nft", "echo '{\"nftables\": []}'")

    def call(**options: Any) -> dict[str, Any]:
        result: dict[str, Any] = run_module("preflight_info", {"root": str(host.root), **options}, check=True)
        assert not result["failed"], result
        return result

    return call


def test_a_bare_host_is_read(read: Read, host: Host) -> None:
    result = read()
    assert not result["changed"]
    assert result["os"] == {
        "id": "debian",
        "version_id": "12",
        "codename": "bookworm",
        "pretty_name": "Debian GNU/Linux 12 (bookworm)",
        "key": "Debian 12",
        "repository_name": "debian12",
    }
    assert (result["memory_mib"], result["memory_available_mib"]) == (16384, 8192)
    assert result["default_address"] == "10.0.0.11"
    assert [entry["address"] for entry in result["addresses"]] == ["10.0.0.11"]
    assert result["gpus"] == [] and result["nvidia_driver"]["loaded_version"] == ""
    assert result["cluster"]["role"] == "" and not result["cluster"]["finished"]
    assert result["firewall"] == packet_filter("", [])
    assert result["cgroup_version"] == 1 and not result["secure_boot"]


def test_a_host_without_readable_files_has_empty_values(read: Read, host: Host, programs: Any) -> None:
    for path in ("etc/os-release", "proc/meminfo", "var/lib/dpkg/status"):
        (host.root / path).unlink()
    programs.add("ip", "exit 1")
    result = read(ports=["6443/tcp"], disk_paths=["/var/lib/etcd"])
    assert result["os"]["key"] == "" and result["default_address"] == "" and result["memory_mib"] == 0


@pytest.mark.parametrize(
    ("params", "profiling"),
    [
        ("", ""),
        ("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n", "administrators"),
        ("RmProfilingAdminOnly: 0\nPreserveVideoMemoryAllocations: 0\n", "all"),
        ("XRmProfilingAdminOnly: 0\n", ""),
    ],
)
def test_whether_users_may_read_performance_counters_is_returned(
    read: Read, host: Host, params: str, profiling: str
) -> None:
    host.write("proc/driver/nvidia/params", params)
    assert read()["nvidia_driver"]["profiling"] == profiling


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("/etc/modprobe.d/mine.conf", "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n", True),
        (
            "/usr/lib/modprobe.d/a.conf",
            "options nvidia NVreg_X=1 NVreg_RestrictProfilingToAdminUsers=0 NVreg_Y=1",
            True,
        ),
        ("/proc/cmdline", "quiet nvidia.NVreg_RestrictProfilingToAdminUsers=0 ro\n", True),
        ("/etc/modprobe.d/gpulab-profiling.conf", "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n", False),
        ("/etc/modprobe.d/mine.conf", "# options nvidia NVreg_RestrictProfilingToAdminUsers=0\n", False),
        ("/etc/modprobe.d/mine.conf", "options nvidia NVreg_RestrictProfilingToAdminUsers=1\n", False),
        ("/etc/modprobe.d/mine.bak", "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n", False),
    ],
)
def test_the_file_that_opens_the_performance_counters_to_users_is_named(
    read: Read, host: Host, path: str, text: str, found: bool
) -> None:
    host.write(path.lstrip("/"), text)
    assert read()["nvidia_driver"]["profiling_files"] == [path] * found


def test_inotify_limits_are_returned(read: Read, host: Host) -> None:
    assert read()["inotify"] == {}
    host.write("proc/sys/fs/inotify/max_user_instances", "128\n")
    host.write("proc/sys/fs/inotify/max_user_watches", "many\n")
    assert read()["inotify"] == {"max_user_instances": 128}


def test_an_ubuntu_host_is_read(read: Read, host: Host) -> None:
    host.write("etc/os-release", NOBLE)
    assert read()["os"]["key"] == "Ubuntu 24.04"
    assert read()["os"]["repository_name"] == "ubuntu2404"


@pytest.mark.parametrize(("systemctl", "active"), [("exit 0", True), ("exit 3", False)])
def test_network_manager_is_detected(read: Read, programs: Any, systemctl: str, active: bool) -> None:
    programs.add("systemctl", f'[ "$*" = "is-active --quiet NetworkManager.service" ] || exit 9; {systemctl}')
    assert read()["network_manager"] is active


def test_gpus_and_nvswitches_on_the_bus_are_counted(read: Read, host: Host) -> None:
    host.pci("0000:3b:00.0", "0x10de", "0x1eb8", "0x030200", "nvidia")
    host.pci("0000:3b:00.1", "0x10de", "0x10f8", "0x040300")
    host.pci("0000:05:00.0", "0x10de", "0x22a3", "0x068000")
    host.pci("0000:02:00.0", "0x1a03", "0x2000", "0x030000")
    result = read()
    gpu = {"address": "0000:3b:00.0", "device_id": "0x1eb8", "class": "0x030200", "driver": "nvidia"}
    assert result["gpus"] == [{**gpu, "console": False, "name": ""}]
    assert result["nvswitches"] == 1


PCI_IDS = """\
10dd  Evans & Sutherland
\t1eb8  Not an NVIDIA device
10de  NVIDIA Corporation
# a comment
\t128b  GK208B [GeForce GT 710]
\t\t10de 118b  GK208 [GeForce GT 710]
\t1eb8  TU104GL [Tesla T4]
10df  Emulex Corporation
"""


@pytest.mark.parametrize(
    ("ignored", "left"),
    [
        ([], ["0000:3b:00.0", "0000:65:00.0"]),
        (["0000:65:00.0"], ["0000:3b:00.0"]),
        (["00000000:3B:00.0", "65:00.0"], []),
        (["10de:128b"], ["0000:3b:00.0"]),
        (["0x1EB8"], ["0000:65:00.0"]),
        (["NVIDIA GeForce GT 710"], ["0000:3b:00.0"]),
        (["Tesla T4"], ["0000:65:00.0"]),
        # Neither a part of a model number nor another vendor's device matches.
        (["T", "GT 71", "Not an NVIDIA device", ""], ["0000:3b:00.0", "0000:65:00.0"]),
    ],
)
def test_gpus_can_be_excluded_by_address_or_model(read: Read, host: Host, ignored: list[str], left: list[str]) -> None:
    host.write("usr/share/misc/pci.ids", PCI_IDS)
    host.pci("0000:3b:00.0", "0x10de", "0x1eb8", "0x030200", "nvidia")
    host.pci("0000:65:00.0", "0x10de", "0x128b", "0x030000")
    host.pci("0000:81:00.0", "0x10de", "0x1eb8", "0x030200", "vfio-pci")
    host.write("sys/bus/pci/devices/0000:65:00.0/boot_vga", "1\n")
    result = read(ignored_gpus=ignored)
    assert [gpu["address"] for gpu in result["gpus"]] == left
    every = sorted(result["gpus"] + result["gpus_left_out"], key=lambda gpu: gpu["address"])
    assert [(gpu["name"], gpu["console"]) for gpu in every] == [
        ("TU104GL [Tesla T4]", False),
        ("GK208B [GeForce GT 710]", True),
        ("TU104GL [Tesla T4]", False),
    ]


def test_sriov_functions_do_not_count_as_gpus(read: Read, host: Host) -> None:
    # An A100 with MIG-backed vGPUs, as lspci shows it: 3b:00.0, and its virtual functions from 3b:00.4.
    host.pci("0000:3b:00.0", "0x10de", "0x20b5", "0x030200", "nvidia")
    for function in ("0000:3b:00.4", "0000:3b:00.5"):
        host.pci(function, "0x10de", "0x20b5", "0x030200", "nvidia")
        (host.root / f"sys/bus/pci/devices/{function}/physfn").symlink_to("../0000:3b:00.0")
    assert [gpu["address"] for gpu in read()["gpus"]] == ["0000:3b:00.0"]


# Keyword area of a ConnectX-7's vital product data (PCI 3.0, appendix I), with which HGX B200 marks four of its
# bridges.
VPD = b"\x82\x2d\x00NVIDIA ConnectX-7 HHHL Adapter Card; Single-port\x90\x21\x00PN\x0dMCX750500B-0D00V2\x06%s\x78"


def test_nvlink_5_bridges_are_found(read: Read, host: Host) -> None:
    for number, mark in enumerate((b"SW_MNG", b"SW_MNG", b"NIC_01")):
        place = host.root / f"sys/devices/pci0000:{number:02x}"
        place.mkdir(parents=True)
        (place / "vpd").write_bytes(VPD % mark)
        (host.root / f"sys/class/infiniband/mlx5_{number}").mkdir(parents=True)
        (host.root / f"sys/class/infiniband/mlx5_{number}/device").symlink_to(place)
    # A device without vital product data.
    (host.root / "sys/class/infiniband/mlx5_9").mkdir()
    result = read()
    assert result["nvlink_bridges"] == ["mlx5_0", "mlx5_1"] and result["nvswitches"] == 0


def test_kernel_headers_and_compiler_for_the_running_kernel_are_returned(read: Read, host: Host) -> None:
    host.write("etc/os-release", NOBLE)
    image = f"linux-image-{RELEASE}"
    meta = f"Package: linux-image-generic-hwe-24.04\nDepends: {image}, linux-firmware\n"
    state = "Status: install ok installed\nArchitecture: amd64\nVersion: 1\n\n"
    host.write("var/lib/dpkg/status", f"{meta}{state}Package: {image}\n{state}")
    host.write("proc/version", "Linux version 6.8 (b@l) (x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6) 13.3.0, GNU ld)\n")
    found = read()["kernel_packages"]
    assert found == {
        "image": image,
        "meta": "linux-image-generic-hwe-24.04",
        "headers": [f"linux-headers-{RELEASE}", "linux-headers-generic-hwe-24.04"],
        "compiler": "gcc-13",
        "newer_without_headers": [],
        "headers_found": False,
        "headers_known": None,
    }
    host.write(f"lib/modules/{RELEASE}/build/Makefile", "")
    assert read()["kernel_packages"]["headers_found"]


def test_a_driver_of_nvidias_repository_is_recognized(read: Read, host: Host) -> None:
    host.write("proc/driver/nvidia/version", DRIVER)
    found = read()["nvidia_driver"]
    assert found["loaded_version"] == "580.178.04" and found["loaded_modules"] == "open"
    assert found["origin"] == "cuda_repository"
    assert found["packages"] == {"nvidia-open-580": "580.178.04-1"}, "the container toolkit is no driver"


@pytest.mark.parametrize(
    ("package", "extra", "origin"),
    [
        ("nvidia-driver", "", "distribution"),
        ("nvidia-driver-535-server", "", "distribution"),
        ("nvidia-driver", "Maintainer: NVIDIA CORPORATION <cudatools@nvidia.com>\n", "cuda_repository"),
        ("nvidia-headless-no-dkms-580-server-open", "", "distribution"),
        ("cuda-drivers", "", "cuda_repository"),
        ("nvidia-driver-cuda", "", "cuda_repository"),
        ("nvidia-kernel-open-dkms", "", "cuda_repository"),
        ("nvidia-open-kernel-dkms", "", "distribution"),
        ("nvidia-kernel-dkms", "", "distribution"),
        ("nvidia-dkms-open", "", "cuda_repository"),
        ("libnvidia-compute", "", "cuda_repository"),
        ("nvidia-dkms-580-open", "Version: 580.178.04-1ubuntu1\n", "cuda_repository"),
        ("nvidia-dkms-580-open", "Version: 580.95.05-0ubuntu0.24.04.1\n", "distribution"),
        ("libnvidia-compute-580-server", "Version: 580.95.05-1ubuntu1\n", "distribution"),
        ("libnvidia-container1", "", "other"),
        ("nvidia-container-toolkit", "", "other"),
        ("cuda-toolkit-13-0", "", "other"),
    ],
)
def test_the_origin_of_a_driver_is_determined(read: Read, host: Host, package: str, extra: str, origin: str) -> None:
    host.write("proc/driver/nvidia/version", DRIVER.replace("Open ", ""))
    host.write(
        "var/lib/dpkg/status",
        f"Package: {package}\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.0-1\n{extra}",
    )
    assert read()["nvidia_driver"]["origin"] == origin
    if origin == "other":
        host.write("usr/bin/nvidia-uninstall", "")
        assert read()["nvidia_driver"]["origin"] == "runfile"


@pytest.mark.parametrize("name", ["nvidia-modprobe", "nvidia-driver-pinning-615.71.09"])
def test_helper_packages_of_another_driver_do_not_determine_the_origin(read: Read, host: Host, name: str) -> None:
    entry = "Package: {0}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {1}\n{2}\n"
    nvidia = "Maintainer: NVIDIA CORPORATION <cudatools@nvidia.com>\n"
    host.write("var/lib/dpkg/status", entry.format(name, "615.71.09-1ubuntu1", nvidia))
    assert read()["nvidia_driver"]["origin"] == "none"
    both = entry.format(name, "615.71.09-1ubuntu1", nvidia)
    both += entry.format("nvidia-headless-580-server-open", "580.95.05-0ubuntu0.24.04.1", "")
    host.write("var/lib/dpkg/status", both)
    assert read()["nvidia_driver"]["origin"] == "distribution"


def test_only_relevant_installed_packages_are_returned(read: Read) -> None:
    assert read()["installed"] == {
        "containerd.io": "2.3.6-1~debian.12~bookworm",
        "nvidia-open-580": "580.178.04-1",
        "libnvidia-container1": "1.20.1-1",
    }


def test_kernel_modules_are_returned(read: Read, host: Host) -> None:
    host.write("proc/modules", "overlay 151552 0 - Live 0x0\nnouveau 1 0 - Live 0x0\n")
    host.write(f"lib/modules/{RELEASE}/modules.builtin", "kernel/net/tun.ko\n")
    host.write(f"lib/modules/{RELEASE}/modules.dep", "kernel/net/bridge/br_netfilter.ko.xz: kernel/net/bridge.ko\n")
    result = read(kernel_modules=["overlay", "tun", "br_netfilter", "nothing"])
    assert result["kernel_modules"] == {
        "overlay": "loaded",
        "tun": "builtin",
        "br_netfilter": "available",
        "nothing": "missing",
    }
    assert result["nvidia_driver"]["nouveau_loaded"]


def test_swap_secure_boot_and_cgroup_version_are_returned(read: Read, host: Host) -> None:
    host.write("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 2097148 10240 -2\n")
    name = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    host.write(f"sys/firmware/efi/efivars/{name}", b"\x06\x00\x00\x00\x01")
    host.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
    result = read()
    assert result["swaps"][0]["name"] == "/dev/sda2" and result["swaps"][0]["used_mib"] == 10
    assert result["swaps"][0]["origin"] == ""
    host.write("etc/fstab", "/dev/sda2 none swap sw 0 0\n")
    assert read()["swaps"][0]["origin"] == "fstab (/etc/fstab)"
    assert result["secure_boot"] and result["cgroup_version"] == 2
    host.write(f"sys/firmware/efi/efivars/{name}", b"\x06\x00\x00\x00\x00")
    assert not read()["secure_boot"]


def test_the_disk_of_a_missing_directory_is_that_of_its_parent(read: Read, host: Host) -> None:
    first, second = read(disk_paths=["/var/lib/containerd", "/"])["disks"]
    assert first["path"] == "/var/lib/containerd" and first["free_mib"] > 0
    assert first["device"] == second["device"]


def test_clock_and_synchronization_are_returned(read: Read) -> None:
    result = read(controller_time=1000000000)
    assert result["clock_offset"] == pytest.approx(result["now"] - 1000000000, abs=5)
    assert read()["clock_offset"] == 0


def test_listeners_are_returned_with_their_programs(read: Read, host: Host) -> None:
    host.write("proc/net/tcp", TCP.format(inode=4711))
    host.write("proc/net/udp", UDP)
    host.write("proc/321/comm", "etcd\n")
    (host.root / "proc/321/fd").mkdir()
    (host.root / "proc/321/fd/7").symlink_to("socket:[4711]")
    (host.root / "proc/321/exe").symlink_to("/usr/local/bin/etcd (deleted)")
    assert read(ports=["2375/tcp", "8472/udp", "6443/tcp"])["listeners"] == [
        {"port": 2375, "protocol": "tcp", "address": "127.0.0.1", "process": "etcd", "pid": 321},
        {"port": 8472, "protocol": "udp", "address": "0.0.0.0", "process": "kernel", "pid": 0},
    ]
    assert read(ports=["2375/udp", "8472/tcp"])["listeners"] == []


def test_a_worker_tests_the_connection_to_the_api_server(read: Read, host: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as closed:
        endpoint, refused = (f"127.0.0.1:{one.getsockname()[1]}" for one in (server, closed))
        closed.close()
        assert read()["api_reach"] == {}
        assert read(api_endpoint="")["api_reach"] == {"endpoint": "", "reach": "unasked", "error": ""}
        assert read(api_endpoint=endpoint)["api_reach"] == {"endpoint": endpoint, "reach": "answered", "error": ""}
        assert read(api_endpoint=refused)["api_reach"]["reach"] == "refused"
        # A joined kubelet already has an API server.
        host.write("etc/kubernetes/kubelet.conf", KUBECONFIG.replace("10.0.0.11:6443", endpoint))
        for given in ("", refused):
            assert read(api_endpoint=given)["api_reach"]["endpoint"] == endpoint
        host.write("etc/kubernetes/kubelet.conf", KUBECONFIG.replace("10.0.0.11:6443", "127.0.0.1"))
        assert read(api_endpoint=endpoint)["api_reach"]["endpoint"] == "127.0.0.1:443"
        # The address of a program on the host itself says nothing about the API.
        host.write("etc/kubernetes/kubelet.conf", KUBECONFIG.replace("10.0.0.11:6443", "api.lab.internal:6443"))
        host.write("etc/hosts", BLOCK)
        assert read(api_endpoint=endpoint)["api_reach"] == {"endpoint": endpoint, "reach": "answered", "error": ""}
        # The name of a host that lost its block, for example because cloud-init wrote the file.
        host.write("etc/hosts", "127.0.0.1 localhost\n")
        assert read(api_endpoint=endpoint)["api_reach"]["endpoint"] == "api.lab.internal:6443"
        host.write("var/lib/gpulab/cluster.json", '{"name": "lab", "api_name": "api.lab.internal"}')
        assert read(api_endpoint=endpoint)["api_reach"] == {"endpoint": endpoint, "reach": "answered", "error": ""}
        host.write("etc/kubernetes/manifests/kube-apiserver.yaml", "")
        host.write("etc/kubernetes/admin.conf", KUBECONFIG)
        assert read(api_endpoint=endpoint)["api_reach"] == {}


def packet_filter(tool: str, blocks: list[str]) -> dict[str, Any]:
    return {
        "tool": tool,
        "active": bool(tool),
        "blocks": blocks,
        "interfaces": {"eth0": blocks},
        "forward": "",
        "forwards": {"eth0": ""},
    }


TAILSCALE = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:ts-input - [0:0]
:ts-forward - [0:0]
-A INPUT -j ts-input
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A INPUT -j REJECT --reject-with icmp-host-prohibited
-A FORWARD -j ts-forward
-A FORWARD -j REJECT --reject-with icmp-host-prohibited
-A ts-input -s 100.101.102.103/32 -i lo -j ACCEPT
-A ts-input -s 100.115.92.0/23 ! -i tailscale0 -j RETURN
-A ts-input -s 100.64.0.0/10 ! -i tailscale0 -j DROP
-A ts-input -i tailscale0 -j ACCEPT
-A ts-input -p udp -m udp --dport 41641 -j ACCEPT
-A ts-forward -i tailscale0 -j MARK --set-xmark 0x40000/0xff0000
-A ts-forward -m mark --mark 0x40000/0xff0000 -j ACCEPT
-A ts-forward -s 100.64.0.0/10 -o tailscale0 -j DROP
-A ts-forward -o tailscale0 -j ACCEPT
COMMIT
"""


def test_ports_allowed_on_another_interface_only_count_as_blocked(read: Read, host: Host, programs: Any) -> None:
    addresses = [
        ("lo", "127.0.0.1", "host"),
        ("tailscale0", "100.101.102.103", "global"),
        ("eth0", "10.0.0.11", "global"),
    ]
    links = [
        {"ifname": name, "addr_info": [{"family": "inet", "local": address, "prefixlen": 24, "scope": scope}]}
        for name, address, scope in addresses
    ]
    programs.add("ip", IP.replace("{addresses}", f"\n{json.dumps(links)}\n").replace("{routes}", ROUTES))
    host.write("rules", TAILSCALE)
    programs.add("iptables-save", f"cat {host.root}/rules")
    wanted = {"reachable_ports": ["22/tcp", "6443/tcp", "8472/udp"], "pod_network": "10.244.0.0/16"}
    closed = ["6443/tcp", "8472/udp"]
    found = read(**wanted, pod_interfaces=["cni0", "flannel.1"])["firewall"]
    assert found == {
        **packet_filter("iptables", closed),
        "interfaces": {"eth0": closed, "tailscale0": []},
        "forward": "FORWARD",
        "forwards": {"eth0": "FORWARD", "tailscale0": "FORWARD"},
    }
    routed = read(**wanted, pod_interfaces=["cni0", ""])["firewall"]
    assert (routed["forward"], routed["forwards"]) == ("FORWARD", {"eth0": "FORWARD", "tailscale0": ""})
    assert read(**wanted)["firewall"]["forward"] == ""


def test_blocked_ports_of_a_firewall_are_returned(read: Read, programs: Any) -> None:
    programs.add(
        "iptables-save",
        "printf '*filter\\n:INPUT DROP [0:0]\\n:ufw-x - [0:0]\\n-A INPUT -p tcp --dport 6443 -j ACCEPT\\nCOMMIT\\n'",
    )
    result = read(reachable_ports=["6443/tcp", "10250/tcp"])
    assert result["firewall"] == packet_filter("ufw", ["10250/tcp"])


@pytest.mark.parametrize("tool", ["iptables", "nftables"])
def test_a_firewall_without_a_known_tool_is_reported(read: Read, programs: Any, tool: str) -> None:
    if tool == "iptables":
        programs.add("iptables-save", "printf '*filter\\n:INPUT DROP [0:0]\\nCOMMIT\\n'")
    else:
        chain = '{"chain": {"family": "inet", "table": "mine", "name": "in", "hook": "input", "policy": "drop"}}'
        programs.add("nft", f"echo '{{\"nftables\": [{chain}]}}'")
    assert read(reachable_ports=["6443/tcp"])["firewall"] == packet_filter(tool, ["6443/tcp"])


def test_a_firewall_of_firewalld_is_reported(read: Read, programs: Any) -> None:
    chain = '{"chain": {"family": "inet", "table": "firewalld", "name": "in", "hook": "input", "policy": "drop"}}'
    programs.add("nft", f"echo '{{\"nftables\": [{chain}]}}'")
    result = read(reachable_ports=["6443/tcp"])
    assert result["firewall"] == packet_filter("firewalld", ["6443/tcp"])


def test_an_unreadable_firewall_is_unknown(read: Read, programs: Any, host: Host) -> None:
    programs.add("iptables-save", "echo 'Permission denied (you must be root)' >&2; exit 4")
    unread: dict[str, Any] = {"blocks": None, "interfaces": {}, "forward": "", "forwards": {}}
    assert read()["firewall"] == {**unread, "tool": "", "active": False}
    host.write("etc/ufw/ufw.conf", "# x\nENABLED=yes\n")
    assert read()["firewall"] == {**unread, "tool": "ufw", "active": True}


KUBECONFIG = "apiVersion: v1\nclusters:\n- cluster:\n    server: https://10.0.0.11:6443\n  name: kubernetes\n"
INIT = ("pki/ca.key", "admin.conf", "kubelet.conf", "manifests/kube-apiserver.yaml")


def test_a_worker_is_recognized_before_and_after_its_join(read: Read, host: Host) -> None:
    host.write("etc/kubernetes/bootstrap-kubelet.conf", KUBECONFIG)
    found = read()["cluster"]
    assert (found["role"], found["begun"], found["finished"]) == ("", True, False)
    host.write("etc/kubernetes/kubelet.conf", KUBECONFIG)
    host.write("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n")
    found = read()["cluster"]
    assert (found["role"], found["begun"], found["finished"]) == ("worker", True, True)


def test_a_control_plane_only_counts_as_finished_after_the_last_phase(read: Read, host: Host) -> None:
    for name in INIT:
        host.write(f"etc/kubernetes/{name}", KUBECONFIG)
        found = read()["cluster"]
        assert (found["role"], found["begun"], found["finished"]) == ("control_plane", True, False)
    host.write("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n")
    assert not read()["cluster"]["finished"]
    host.write("var/lib/etcd/member/snap/db", "")
    assert read()["cluster"]["finished"]


def test_a_certificate_that_cannot_be_read_has_no_hash(read: Read, host: Host) -> None:
    host.write("etc/kubernetes/pki/ca.crt", "no certificate")
    assert (read()["cluster"]["ca_hashes"], read()["cluster"]["ca"]) == ([], "")


def test_the_names_of_the_api_server_are_returned(read: Read, host: Host, authority: Authority) -> None:
    assert read()["cluster"]["api_server_names"] == []
    host.write("etc/kubernetes/pki/apiserver.crt", "".join(authority.issue("x", names=["api.lab.internal"])))
    assert "api.lab.internal" in read()["cluster"]["api_server_names"]
    host.write("etc/kubernetes/pki/apiserver.crt", "-----BEGIN CERTIFICATE-----\neHg=\n-----END CERTIFICATE-----\n")
    assert read()["cluster"]["api_server_names"] == []


def test_the_ca_is_returned_without_anything_else_in_its_file(read: Read, host: Host, authority: Authority) -> None:
    host.write("etc/kubernetes/pki/ca.crt", f"# by hand\n{authority.pem}-----BEGIN X-----\n")
    assert read()["cluster"]["ca"].split() == authority.pem.split()


def test_endpoint_of_the_cluster_is_that_of_the_administrator_on_a_control_plane(read: Read, host: Host) -> None:
    named = KUBECONFIG.replace("10.0.0.11:6443", "api.lab.internal:6443")
    host.write("etc/kubernetes/kubelet.conf", KUBECONFIG)
    assert read()["cluster"]["endpoint"] == "10.0.0.11:6443"
    host.write("etc/kubernetes/admin.conf", named)
    assert read()["cluster"]["endpoint"] == "api.lab.internal:6443"
    host.write("etc/kubernetes/admin.conf", "damaged")
    assert read()["cluster"]["endpoint"] == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [('{"name": "lab"}', "lab"), ('{"name": "a b"}', ""), ('{"name": 7}', ""), ("[]", ""), ("{", ""), ("", "")],
)
def test_the_recorded_name_of_the_cluster_is_returned(read: Read, host: Host, text: str, name: str) -> None:
    host.write("var/lib/gpulab/cluster.json", text)
    assert read()["cluster"]["name"] == name


@pytest.mark.parametrize(
    ("api_name", "found"),
    [("k8s.example.org", "k8s.example.org"), ("", ""), ("lab", ""), ("a b.c", ""), (["a.b"], ""), ("a.b\n", "")],
)
def test_the_recorded_name_of_the_api_is_returned(read: Read, host: Host, api_name: Any, found: str) -> None:
    host.write("var/lib/gpulab/cluster.json", json.dumps({"name": "lab", "api_name": api_name}))
    cluster = read()["cluster"]
    assert (cluster["name"], cluster["api_name"]) == ("lab", found)


PACKAGES = (
    "Package: kubelet\nVersion: {}\nDescription: x\n Package: kubelet\n Version: 9\n\nPackage: other\nVersion: 7\n"
)


@pytest.fixture
def repository(tmp_path: Path) -> dict[str, Any]:
    directory = tmp_path / "repo"
    directory.mkdir()
    (directory / "Packages.gz").write_bytes(
        gzip.compress((PACKAGES.format("1.36.4-1.1") + "\n" + PACKAGES.format("1.36.3-1.1")).encode())
    )
    return {"name": "Kubernetes", "uri": f"file://{directory}/", "packages": {"kubelet": "1.36.4-1.1"}}


def test_a_repository_with_the_pinned_version_has_nothing_missing(read: Read, repository: dict[str, Any]) -> None:
    (found,) = read(repositories=[repository])["repositories"]
    assert found["asked"] and not found["missing"] and not found["error"]
    assert found["available"] == {"kubelet": ["1.36.4-1.1", "1.36.3-1.1"]}


def test_a_repository_without_the_pinned_version_is_reported(read: Read, repository: dict[str, Any]) -> None:
    repository["packages"] = {"kubelet": "1.36.9-1.1", "kubeadm": "1.36.4-1.1", "other": ""}
    (found,) = read(repositories=[repository])["repositories"]
    assert found["missing"] == {"kubelet": "1.36.9-1.1", "kubeadm": "1.36.4-1.1"}
    assert found["available"]["kubelet"] == ["1.36.4-1.1", "1.36.3-1.1"]


@pytest.mark.parametrize(
    ("path", "text", "socket"),
    [
        ("instance-config.yaml", "containerRuntimeEndpoint: unix:///run/a.sock\n", "unix:///run/a.sock"),
        (
            "kubeadm-flags.env",
            'KUBELET_KUBEADM_ARGS="--x=1 --container-runtime-endpoint=unix:///b.sock"',
            "unix:///b.sock",
        ),
        ("config.yaml", 'a: b\ncontainerRuntimeEndpoint: "unix:///c.sock" # x\n', "unix:///c.sock"),
        ("config.yaml", 'containerRuntimeEndpoint: ""\n', ""),
    ],
)
def test_the_container_runtime_of_a_node_is_returned(read: Read, host: Host, path: str, text: str, socket: str) -> None:
    host.write(f"var/lib/kubelet/{path}", text)
    assert read()["cluster"]["container_runtime"] == socket


def test_the_name_of_a_node_is_returned(read: Read, host: Host, authority: Authority) -> None:
    pem = "var/lib/kubelet/pki/kubelet-client-current.pem"
    for name, expected in (("system:node:gpu1", "gpu1"), ("gpu1", "")):
        host.write(pem, "".join(authority.issue(name)))
        assert read()["cluster"]["node_name"] == expected
    host.write(pem, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert read()["cluster"]["node_name"] == ""


CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps/{}"
PLUGIN = {"name": "nvidia-device-plugin-a", "labels": {"app": "nvidia-device-plugin", "gpulab.io/configuration": "a"}}


@pytest.fixture
def control_plane(host: Host, api: ApiServer, authority: Authority) -> ApiServer:
    """A control plane whose cluster has our device plugin and no GPU Operator."""
    host.write("etc/kubernetes/admin.conf", authority.kubeconfig(api.url))
    host.write("etc/kubernetes/kubelet.conf", rotated_kubeconfig(api.url, authority.pem))
    host.write("etc/kubernetes/manifests/kube-apiserver.yaml", "")
    host.write("var/lib/etcd/member/snap/db", "/configmaps/kube-public/cluster-info")
    api.finished()
    api.answers["/version"] = (200, {"gitVersion": "v1.36.4"})
    for namespace, name, key in (
        ("kube-system", "kubeadm-config", "ClusterConfiguration"),
        ("kube-system", "kubelet-config", "kubelet"),
        ("kube-flannel", "kube-flannel-cfg", "net-conf.json"),
    ):
        api.answers[CONFIG_MAPS.format(namespace, name)] = (200, {"data": {key: f"text of {name}"}})
    api.answers["/apis/apps/v1/daemonsets"] = (200, {"items": [{"metadata": PLUGIN}, {"metadata": {"name": "x"}}]})
    return api


def test_the_settings_of_an_existing_cluster_are_returned(read: Read, control_plane: ApiServer) -> None:
    found = read(api_timeout=0)["control_plane"]
    assert (found["action"], found["api"], found["error"], found["version"]) == ("finished", "alive", "", "v1.36.4")
    assert found["texts"] == {
        "ClusterConfiguration": "text of kubeadm-config",
        "KubeletConfiguration": "text of kubelet-config",
        "flannel": "text of kube-flannel-cfg",
    }
    assert found["daemonsets"] == ["nvidia-device-plugin-a", "x"] and found["gpu_managers"] == ["device_plugin"]
    assert (found["interrupted"], found["restorable"]) == (False, [])


def test_a_control_plane_that_is_joining_others_is_not_judged_as_one_of_its_own(
    read: Read, host: Host, control_plane: ApiServer
) -> None:
    """Its name leads to another control plane, which answers."""
    host.write("var/lib/gpulab/kubeadm-join.json", '{"ca_cert_hashes": [], "control_plane": true}')
    found = read(api_timeout=0)
    assert found["control_plane"] == {} and found["cluster"]["joining"] and not found["cluster"]["finished"]


def test_what_an_interrupted_change_has_damaged_is_returned(read: Read, host: Host, control_plane: ApiServer) -> None:
    Undo(str(host.root)).begin(["/etc/kubernetes/admin.conf"], RENEWAL)
    host.write("etc/kubernetes/admin.conf", "")
    found = read(api_timeout=0)["control_plane"]
    assert (found["interrupted"], found["restorable"]) == (True, ["/etc/kubernetes/admin.conf"])


def test_gpu_managers_of_the_cluster_are_returned(read: Read, control_plane: ApiServer) -> None:
    control_plane.answers["/apis/nvidia.com/v1/clusterpolicies"] = (200, {"items": [{"metadata": {"name": "p"}}]})
    assert read()["control_plane"]["gpu_managers"] == ["device_plugin", "gpu_operator"]
    # An unmanaged plugin is not compared.
    control_plane.answers["/apis/apps/v1/daemonsets"] = (
        200,
        {"items": [{"metadata": {"name": "y", "labels": {"app": "nvidia-device-plugin"}}}, {"metadata": 7}, 7]},
    )
    assert read()["control_plane"]["gpu_managers"] == ["gpu_operator"]


def test_nodes_that_offer_gpus_by_dra_are_returned(read: Read, control_plane: ApiServer) -> None:
    assert read()["control_plane"]["gpus_twice"] == {}
    control_plane.answers["/apis/resource.k8s.io/v1/resourceslices"] = (
        200,
        {"items": [resource_slice("gpu1", device("gpu-0")), resource_slice("gpu2", device("gpu-0")), 7]},
    )
    left_out = {"name": "gpu2", "labels": {"nvidia.com/gpu.deploy.device-plugin": "false"}}
    wanted = {"name": "gpu1", "labels": {"gpulab.io/gpu": "true"}}
    control_plane.answers["/api/v1/nodes"] = (200, {"items": [{"metadata": wanted}, {"metadata": left_out}]})
    assert read()["control_plane"]["gpus_twice"] == {"nodes": ["gpu1"], "classes": {}}


def test_nodes_and_removed_nodes_are_returned(read: Read, control_plane: ApiServer) -> None:
    assert read()["control_plane"]["removed_nodes"] == {}
    control_plane.answers["/api/v1/nodes"] = (200, {"items": [{"metadata": {"name": "gpu1", "uid": "u"}}]})
    path = CONFIG_MAPS.format("kube-system", "gpulab-removed-nodes")
    control_plane.answers[path] = (200, {"data": {"gpu2": '{"host": "gpu2"}'}})
    found = read()["control_plane"]
    assert [(node["name"], node["uid"]) for node in found["nodes"]] == [("gpu1", "u")]
    assert found["removed_nodes"] == {"gpu2": {"host": "gpu2", "machine_id": "", "since": ""}}


@pytest.mark.parametrize("body", [7, [], {"data": None}, {"data": {"kubelet": 5}}, "no JSON"])
def test_invalid_api_responses_are_ignored(read: Read, control_plane: ApiServer, body: Any) -> None:
    for path in list(control_plane.answers):
        if "kube-public" not in path:
            control_plane.answers[path] = (200, body)
    found = read()["control_plane"]
    assert (found["texts"], found["version"], found["daemonsets"]) == ({}, "", [])
    assert (found["nodes"], found["removed_nodes"]) == ([], {})


def test_an_api_that_returns_nothing_is_reported(read: Read, control_plane: ApiServer) -> None:
    control_plane.answers["/version"] = (500, {"message": "etcd is slow"})
    found = read()["control_plane"]
    assert found["action"] == "finished" and "etcd is slow" in found["error"]
    control_plane.down()
    found = read(api_timeout=0)["control_plane"]
    assert (found["action"], found["api"], found["error"], found["texts"]) == ("refuse", "silent", "", {})


def test_a_worker_does_not_query_the_api(read: Read, host: Host) -> None:
    host.write("etc/kubernetes/kubelet.conf", KUBECONFIG)
    assert read()["control_plane"] == {}


def test_drop_ins_of_containerd_are_returned(read: Read, host: Host) -> None:
    assert read()["containerd_drop_ins"] == []
    host.write("etc/containerd/config.toml", "imports = ['/srv/old.toml']")
    host.write("etc/containerd/conf.d/b.toml", "imports = ['/srv/*.toml']")
    host.write("etc/containerd/conf.d/a.toml", "[x.auth]\npassword = 'hunter2'\n")
    host.write("srv/more.toml", "version = 3")
    assert read()["containerd_drop_ins"] == [
        {"path": "/etc/containerd/conf.d/a.toml", "text": '[x.auth]\npassword = "********"\n', "imported": True},
        {"path": "/etc/containerd/conf.d/b.toml", "text": "imports = ['/srv/*.toml']", "imported": True},
        {"path": "/srv/more.toml", "text": "version = 3", "imported": True},
    ]
    assert [file["path"] for file in read(containerd_drop_ins="/srv/*")["containerd_drop_ins"]] == ["/srv/more.toml"]


def test_a_repository_is_not_queried_if_its_packages_are_installed(read: Read) -> None:
    gone = {"name": "gone", "uri": "file:///does/not/exist/"}
    version = "2.3.6-1~debian.12~bookworm"
    all_there = {**gone, "packages": {"containerd.io": version}}
    one_there = {**gone, "packages": {"nvidia-open-580": "580.178.04-1", "cuda-drivers-580": "580.178.04-1"}}
    for repository in (all_there, {**one_there, "any": True}):
        (found,) = read(repositories=[repository])["repositories"]
        assert not found["asked"] and not found["error"]
    (found,) = read(repositories=[one_there])["repositories"]
    assert found["asked"] and "/does/not/exist/Packages.gz" in found["error"]


def test_the_distributions_package_names_and_versions_are_used(
    read: Read, repository: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "repo").rename(tmp_path / "debian-bookworm-debian12")
    repository["uri"] = f"file://{tmp_path}/{{id}}-{{codename}}-{{repository_name}}/"
    for versions, missing in (
        ({"Debian 12": "1.36.4-1.1", "Debian": "0"}, {}),
        ({"Debian": "1.36.4-1.1", "any": "0"}, {}),
        ({"any": "9.9"}, {"kubelet": "9.9"}),
    ):
        repository["packages"] = {"kubelet": versions}
        (found,) = read(repositories=[repository])["repositories"]
        assert not found["error"] and found["missing"] == missing
    repository["packages"] = {"kubelet": {"Ubuntu 24.04": "1"}}
    assert read(repositories=[repository])["repositories"] == []


@pytest.mark.parametrize(
    ("served", "kind", "cause"),
    [
        (public_key(1), "", ""),
        (public_key(2) + public_key(1), "", ""),
        (public_key(2), "unexpected", f"its fingerprint is {fingerprint(2)}, expected {fingerprint(1)} or {'A' * 40}"),
        (public_key(1, days_left=-2), "expired", "it expired on 20"),
        (b"<html>", "unreadable", "it is not an OpenPGP public key"),
        (None, "unreachable", "No such file"),
    ],
)
def test_the_key_of_a_repository_is_read(
    read: Read, repository: dict[str, Any], tmp_path: Path, served: bytes | None, kind: str, cause: str
) -> None:
    (tmp_path / "debian12").mkdir()
    if served is not None:
        (tmp_path / "debian12/8793F200.pub").write_bytes(served)
    question = {
        **repository,
        "key": {"debian12": "8793F200.pub", "debian13": "other.pub"},
        "key_url": f"file://{tmp_path}/{{repository_name}}/{{key}}",
        "fingerprints": [fingerprint(1), "a" * 40],
    }
    (found,) = read(repositories=[question])["repositories"]
    assert found["key"]["url"] == f"file://{tmp_path}/debian12/8793F200.pub"
    assert found["key"]["kind"] == kind and cause in found["key"]["cause"]


def test_the_key_of_a_repository_that_is_not_needed_is_not_read(read: Read, repository: dict[str, Any]) -> None:
    question = {**repository, "key_url": "file:///gone/{key}"}
    assert read(repositories=[{**question, "key": {"ubuntu9904": "x"}}])["repositories"][0]["key"] == {}
    question["packages"] = {"nvidia-open-580": ""}
    assert read(repositories=[{**question, "key": "x"}])["repositories"][0]["key"] == {}


def test_nvswitch_packages_are_only_required_with_nvswitches(
    read: Read, host: Host, repository: dict[str, Any]
) -> None:
    question = {**repository, "nvswitch_packages": {"nvidia-fabricmanager": "1"}}
    assert read(repositories=[question])["repositories"][0]["missing"] == {}
    host.pci("0000:3b:00.0", "0x10de", "0x2330", "0x030200")
    host.pci("0000:07:00.0", "0x10de", "0x22a3", "0x068000")
    assert read(repositories=[question])["repositories"][0]["missing"] == {"nvidia-fabricmanager": "1"}


JOINED = {"etc/kubernetes/kubelet.conf": KUBECONFIG, "var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n"}


@pytest.mark.parametrize(
    ("files", "answer", "found"),
    [
        ({"etc/hosts": "10.0.0.1 API.lab.internal\n"}, "exit 2", {"elsewhere": ["10.0.0.1"]}),
        ({}, "echo '192.0.2.7       STREAM api.lab.internal'; echo junk", {"elsewhere": ["192.0.2.7"]}),
        ({}, "echo '127.0.0.1 STREAM'", {}),
        ({"etc/hosts": BLOCK}, "echo '192.0.2.7 STREAM'", {"names": ["api.lab.internal"]}),
        ({"etc/cloud/templates/hosts.debian.tmpl": ""}, "exit 2", {"has_template": True}),
        ({"etc/systemd/system/gpulab-api-endpoint.service": ""}, "exit 2", {"has_proxy": True}),
        ({"proc/self/mountinfo": "36 25 8:1 /hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"}, "exit 2", {"is_mount": True}),
        # A host that is part of a cluster does not wait for DNS.
        (JOINED, "echo '192.0.2.7 STREAM'", {}),
    ],
)
def test_where_the_name_of_the_api_leads_is_returned(
    read: Read, host: Host, programs: Any, files: dict[str, str], answer: str, found: dict[str, Any]
) -> None:
    programs.add("getent", f'[ "$2" = api.lab.internal. ] || exit 2\n{answer}')
    for path, text in files.items():
        host.write(path, text)
    bare = {"name": "api.lab.internal", "names": [], "elsewhere": [], "is_mount": False}
    bare |= {"rewritten": False, "has_template": False, "has_proxy": False}
    assert read(api_name="api.lab.internal")["hosts_file"] == {**bare, **found}
    if files == JOINED:
        migrating = read(api_name="api.lab.internal", migrates_endpoint=True)
        assert migrating["hosts_file"]["elsewhere"] == ["192.0.2.7"]


def test_domain_that_has_every_name_does_not_have_the_name_of_the_api(read: Read, programs: Any) -> None:
    programs.add("getent", "echo '192.0.2.7 STREAM'")
    assert read(api_name="api.lab.internal")["hosts_file"]["elsewhere"] == []
    programs.add("getent", """echo '192.0.2.7 STREAM'; [ "$2" != api.lab.internal. ] || echo '192.0.2.8 STREAM'""")
    assert read(api_name="api.lab.internal")["hosts_file"]["elsewhere"] == ["192.0.2.8"]


RESULT = "run/cloud-init/result.json"


@pytest.mark.parametrize(
    ("files", "boot", "state", "words"),
    [
        ({}, "running", "absent", ""),
        ({"usr/bin/cloud-init": ""}, "starting", "disabled", ""),
        ({"usr/bin/cloud-init": "", "run/cloud-init/disabled": ""}, "starting", "disabled", ""),
        ({"usr/bin/cloud-init": "", RESULT: '{"v1": {"datasource": "x", "errors": []}}'}, "starting", "done", ""),
        (
            {"usr/bin/cloud-init": "", RESULT: '{"v1": {"errors": ["(\'apt\', E(1))", "x"]}}'},
            "running",
            "error",
            "cloud-init ended with errors, so something may be missing on this host: ('apt', E(1)); x",
        ),
        ({"usr/bin/cloud-init": "", RESULT: "[]"}, "running", "error", "result.json can't be read"),
        ({"usr/bin/cloud-init": "", "run/cloud-init/enabled": ""}, "degraded", "error", "it stopped before it wrote"),
        ({"usr/bin/cloud-init": "", "run/cloud-init/enabled": ""}, "starting", "running", "is still setting up"),
    ],
)
def test_the_state_of_cloud_init_is_returned(
    read: Read, host: Host, programs: Any, files: dict[str, str], boot: str, state: str, words: str
) -> None:
    programs.add("systemctl", f"echo {boot}; exit 1")
    for path, text in files.items():
        host.write(path, text)
    result = read(cloud_init_timeout=1)
    assert result["cloud_init"]["state"] == state
    assert words in str(result.get("warnings", "")) and bool(words) == bool(result.get("warnings"))


def test_the_module_waits_for_cloud_init(read: Read, host: Host, programs: Any) -> None:
    host.write("usr/bin/cloud-init", "")
    host.write("run/cloud-init/enabled", "")
    done = f'echo \'{{"v1": {{"errors": []}}}}\' > {host.root}/{RESULT}'
    programs.add("systemctl", f"{done}; echo starting; exit 1")
    begun = time.time()
    result = read(cloud_init_timeout=60, controller_time=begun)
    took = time.time() - begun
    assert result["cloud_init"]["state"] == "done" and result["cloud_init"]["waited"] >= 2
    assert result["clock_offset"] <= took - result["cloud_init"]["waited"] + 0.1, "waiting is not an offset"


def test_a_damaged_index_is_an_error(read: Read, repository: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "repo/Packages.gz").write_bytes(b"<html>login</html>")
    (found,) = read(repositories=[repository])["repositories"]
    assert "Packages.gz" in found["error"]


def test_a_gpu_repository_is_only_queried_with_a_gpu(read: Read, host: Host, repository: dict[str, Any]) -> None:
    repository["gpus"] = True
    assert read(repositories=[repository])["repositories"] == []
    host.pci("0000:3b:00.0", "0x10de", "0x1eb8", "0x030200")
    assert len(read(repositories=[repository])["repositories"]) == 1


def test_unmanaged_apt_sources_are_returned(read: Read, host: Host) -> None:
    docker = {"name": "d", "uri": "https://h/debian", "suite": "bookworm", "component": "stable", "packages": {}}
    host.write("etc/apt/sources.list", "# x\ndeb [signed-by=/k] https://h/debian/ bookworm stable\n")
    ours = "# Managed by gpulab.kubernetes.apt_source\nTypes: deb\nURIs: https://h/debian\nSuites: bookworm\n"
    host.write("etc/apt/sources.list.d/ours.sources", ours)
    (found,) = read(repositories=[docker])["repositories"]
    place = {"file": str(host.root / "etc/apt/sources.list"), "line": 2, "uri": "https://h/debian/", "shared": False}
    assert found["conflicts"] == [place]
    host.write("etc/apt/sources.list", "")
    host.write("etc/apt/sources.list.d/two.sources", "Types: deb\nURIs: https://h/debian\nSuites: bookworm trixie\n")
    (found,) = read(repositories=[docker])["repositories"]
    assert [each["shared"] for each in found["conflicts"]] == [True]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("etc/systemd/system/k3s-agent.service", ["k3s"]),
        ("usr/local/lib/systemd/system/rke2-server.service", ["rke2"]),
        ("etc/systemd/system/k0scontroller.service", ["k0s"]),
        ("snap/microk8s/current", ["microk8s"]),
        ("var/lib/minikube/certs/ca.crt", ["minikube"]),
        ("var/lib/rancher/k3s/what-is-left", []),
    ],
)
def test_other_kubernetes_distributions_are_detected(read: Read, host: Host, path: str, names: list[str]) -> None:
    host.write(path, "")
    assert read()["other_clusters"] == names


def test_held_packages_are_returned(read: Read, host: Host) -> None:
    assert read()["held"] == ["containerd.io"]
    # On a managed host, the roles themselves hold packages.
    host.write("etc/apt/sources.list.d/gpulab-containerd.sources", "")
    assert read()["held"] == []


def test_components_of_enabled_sources_are_returned(read: Read, host: Host) -> None:
    host.write("etc/apt/sources.list", "deb https://h/debian bookworm main contrib\ndeb-src https://h/d x non-free\n")
    paragraphs = "Types: deb\nURIs: https://h/d\nSuites: x\nComponents: main non-free-firmware\n"
    host.write("etc/apt/sources.list.d/a.sources", f"{paragraphs}\nEnabled: no\n{paragraphs.replace('main', 'off')}")
    assert read()["apt_components"] == ["contrib", "main", "non-free-firmware"]


MADISON = """\
nvidia-kernel-dkms | 535.309.01-1~deb12u1 | http://security.debian.org bookworm-security/non-free amd64 Packages
nvidia-kernel-dkms | 595.91.07-1 | https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64  Packages
nvidia-open-kernel-dkms | 535.261.03-1~deb12u1 | http://deb.debian.org/debian bookworm/contrib amd64 Packages
nvidia-graphics-drivers | 535.261.03-1~deb12u1 | http://deb.debian.org/debian bookworm/non-free Sources
"""


def test_versions_of_the_distributions_drivers_are_returned(read: Read, host: Host, programs: Any) -> None:
    names = "nvidia-smi nvidia-kernel-dkms nvidia-open-kernel-dkms nvidia-settings"
    programs.add(
        "apt-cache",
        f'case "$*" in *pkgnames*) printf "%s\\n" {names};; *madison*) cat <<"END"\n{MADISON}END\n;; esac',
    )
    host.pci("0000:3b:00.0", "0x10de", "0x1eb8", "0x030200")
    assert read(distribution_drivers=True)["distribution_versions"] == [
        {"version": "535.261.03", "modules": "open"},
        {"version": "535.309.01", "modules": "proprietary"},
    ]


@pytest.mark.parametrize(
    ("says", "enrolled"),
    [
        ("{0} is already enrolled", True),
        ("{0} is not enrolled", False),
        ("EFI variables are not supported on this system", None),
    ],
)
def test_whether_dkmss_key_is_enrolled_is_returned(
    read: Read, host: Host, programs: Any, says: str, enrolled: bool | None
) -> None:
    secure = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    assert read()["signing_key"] == {}
    host.write(secure, b"\x06\x00\x00\x00\x01")
    assert read()["signing_key"] == {"certificate": "/var/lib/dkms/mok.pub", "enrolled": False}
    host.write("var/lib/dkms/mok.pub", "x")
    programs.add("mokutil", f'[ "$1" = --test-key ] && echo "{says.format("$2")}"; exit 1')
    assert read()["signing_key"]["enrolled"] is enrolled


def test_whether_apt_has_headers_for_the_running_kernel_is_returned(read: Read, host: Host, programs: Any) -> None:
    host.pci("0000:3b:00.0", "0x10de", "0x1eb8", "0x030200")
    for names, known in (("", None), ("linux-headers-1", False), (f"linux-headers-1 linux-headers-{RELEASE}", True)):
        programs.add("apt-cache", f'printf "%s\\n" {names}')
        assert read()["kernel_packages"]["headers_known"] is known


def test_the_distributions_drivers_that_apt_has_are_returned(read: Read, host: Host, programs: Any) -> None:
    programs.add("apt-cache", "printf '%s\\n' nvidia-smi nvidia-utils-580-server nvidia-utils-580 nvidia-settings")
    assert read(distribution_drivers=True)["distribution_drivers"] == []
    host.pci("0000:3b:00.0", "0x10de", "0x1eb8", "0x030200")
    assert read()["distribution_drivers"] == []
    assert read(distribution_drivers=True)["distribution_drivers"] == ["nvidia-smi", "nvidia-utils-580-server"]


@pytest.mark.parametrize("active", [True, False])
def test_the_resolver_is_returned(read: Read, host: Host, programs: Any, active: bool) -> None:
    programs.add("systemctl", f'[ "$*" = "is-active --quiet systemd-resolved" ] && exit {0 if active else 3}')
    assert read()["resolver"]["systemd_resolved"] is False, "active, and its file is not there"
    host.write("etc/resolv.conf", "# nameserver 1.1.1.1\nnameserver 127.0.0.53\noptions edns0\n")
    host.write("run/systemd/resolve/resolv.conf", "nameserver 10.0.0.2\n nameserver fe80::1%eth0 # home\nsearch a.b\n")
    host.write("var/lib/kubelet/config.yaml", 'registerNode: true\nresolvConf: "/etc/kubelet-resolv.conf"\n')
    found = read(resolv_conf="/etc/upstream.conf")["resolver"]
    assert found == {
        "systemd_resolved": active,
        "kubelet": "/etc/kubelet-resolv.conf",
        "files": {
            "/run/systemd/resolve/resolv.conf": ["10.0.0.2", "fe80::1%eth0"],
            "/etc/resolv.conf": ["127.0.0.53"],
            "/etc/upstream.conf": None,
            "/etc/kubelet-resolv.conf": None,
        },
    }
    host.write("var/lib/kubelet/config.yaml", "registerNode: true\n")
    assert read()["resolver"]["kubelet"] is None
