"""A machine with containerd alone: no cluster, no driver."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.filter.containerd import containerd_config


def test_containerd_runs_and_starts_at_boot(machine: Any) -> None:
    assert machine.service("containerd").is_running
    assert machine.service("containerd").is_enabled


def test_containerd_alone_is_installed_and_held(machine: Any) -> None:
    assert machine.check_output("apt-mark showhold").split() == ["containerd.io"]
    assert not machine.file("/proc/driver/nvidia/version").exists
    assert not machine.package("kubelet").is_installed


def test_containers_run_in_systemd_s_control_groups(machine: Any) -> None:
    with machine.sudo():
        dump = machine.check_output("containerd config dump")
        version = machine.check_output("containerd --version").split()[2]
    merged = containerd_config(dump, version)
    assert (merged["default_runtime"], merged["conflicts"]) == ("runc", [])
    assert merged["runtimes"]["runc"]["systemd_cgroup"]
