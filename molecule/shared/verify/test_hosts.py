"""What a person finds on a host afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.containerd import containerd_config

HELD = {"containerd.io", "cri-tools", "kubeadm", "kubectl", "kubelet", "kubernetes-cni"}
HELD_GPU = {"nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container1"}


def test_swap_is_off_now_and_after_a_reboot(machine: Any) -> None:
    assert machine.check_output("cat /proc/swaps").splitlines()[1:] == []
    fstab = machine.check_output("cat /etc/fstab").splitlines()
    assert [line for line in fstab if not line.startswith("#") and " swap " in line.replace("\t", " ")] == []


def test_the_kernel_forwards_what_pods_send(machine: Any) -> None:
    assert machine.sysctl("net.ipv4.ip_forward") == 1
    assert machine.sysctl("net.bridge.bridge-nf-call-iptables") == 1
    assert "br_netfilter" in machine.file("/etc/modules-load.d/gpulab.conf").content_string


@pytest.mark.parametrize("service", ["containerd", "kubelet"])
def test_services_run_and_start_at_boot(machine: Any, service: str) -> None:
    assert machine.service(service).is_running
    assert machine.service(service).is_enabled


def test_the_second_run_restarted_nothing(machine: Any, ephemeral: Path) -> None:
    name = machine.backend.host
    before = (ephemeral / f"services-{name}").read_text().split()
    show = "systemctl show --property=ActiveEnterTimestampMonotonic --value containerd.service kubelet.service"
    assert machine.check_output(show).split() == before


def test_packages_are_held(machine: Any) -> None:
    assert set(machine.check_output("apt-mark showhold").split()) >= HELD


def test_gpu_packages_are_held(gpu_machine: Any) -> None:
    held = set(gpu_machine.check_output("apt-mark showhold").split())
    assert held >= HELD_GPU
    assert [name for name in held if "nvidia" in name and "container" not in name], "no driver package is held"


def test_the_driver_runs_in_the_installed_version(gpu_machine: Any) -> None:
    loaded = gpu_machine.check_output("cat /proc/driver/nvidia/version")
    asked = gpu_machine.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    assert set(asked.split()) <= set(loaded.split())


@pytest.mark.parametrize("path", ["/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/config.yaml"])
def test_the_node_s_files_are_not_for_everybody_to_write(machine: Any, path: str) -> None:
    with machine.sudo():
        file = machine.file(path)
        assert file.exists
        assert file.user == "root"
        assert file.mode & 0o022 == 0


def test_credentials_are_for_root_only(machine: Any) -> None:
    with machine.sudo():
        listed = machine.check_output(
            "find /etc/kubernetes -maxdepth 1 -name '*.conf' -perm /077 ! -name 'kubelet.conf'"
        )
        assert listed == ""
        assert machine.file("/etc/kubernetes/kubelet.conf").mode & 0o077 == 0


def test_no_join_configuration_with_its_token_is_left(machine: Any) -> None:
    with machine.sudo():
        found = machine.run("grep -rlE '[a-z0-9]{6}[.][a-z0-9]{16}' /etc/kubernetes /root /tmp /var/tmp /run/gpulab")
        assert found.stdout == ""


def test_containerd_merged_what_two_roles_wrote(gpu_machine: Any) -> None:
    with gpu_machine.sudo():
        dump = gpu_machine.check_output("containerd config dump")
        version = gpu_machine.check_output("containerd --version").split()[2]
    merged = containerd_config(dump, version)
    assert merged["default_runtime"] == "nvidia"
    assert {name: runtime["systemd_cgroup"] for name, runtime in merged["runtimes"].items()} == {
        "runc": True,
        "nvidia": True,
    }
    assert merged["cdi"]
    assert merged["conflicts"] == []


def test_the_report_tells_the_same(gpu_machine: Any, ephemeral: Path) -> None:
    hosts = json.loads((ephemeral / "gpulab-report.json").read_text())["hosts"]
    assert hosts[gpu_machine.backend.host]["containerd_config"] == {
        "default_runtime": "nvidia",
        "cdi": True,
        "systemd_cgroup": {"runc": True, "nvidia": True},
        "conflicts": [],
    }


def test_pods_may_not_choose_gpus_by_an_environment_variable(gpu_machine: Any) -> None:
    text = gpu_machine.file("/etc/nvidia-container-runtime/config.toml").content_string
    assert "accept-nvidia-visible-devices-envvar-when-unprivileged = false" in text


def test_a_package_source_of_ours_needs_its_key(machine: Any) -> None:
    paths = machine.check_output("ls /etc/apt/sources.list.d/gpulab-*").split()
    assert "/etc/apt/sources.list.d/gpulab-kubernetes.sources" in paths
    for path in paths:
        text = machine.file(path).content_string
        assert "trusted" not in text.lower()
        assert "Signed-By: /etc/apt/keyrings/" in text
