"""A machine with the driver alone: no cluster, no container runtime."""

from __future__ import annotations

from typing import Any


def test_the_driver_is_loaded_in_the_version_that_nvidia_smi_reports(machine: Any) -> None:
    loaded = machine.check_output("cat /proc/driver/nvidia/version")
    versions = machine.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader").split()
    assert len(versions) == 2
    assert set(versions) <= set(loaded.split())


def test_the_driver_s_packages_are_held_and_no_others_were_installed(machine: Any) -> None:
    held = machine.check_output("apt-mark showhold").split()
    assert held and all("nvidia" in name or name.startswith(("cuda-", "libnvidia")) for name in held)
    assert not machine.package("containerd.io").is_installed
    assert not machine.package("kubelet").is_installed


def test_updates_and_nouveau_leave_the_driver_alone(machine: Any) -> None:
    assert "blacklist nouveau" in machine.file("/etc/modprobe.d/gpulab-nouveau.conf").content_string
    assert "nvidia" in machine.file("/etc/apt/apt.conf.d/60gpulab-nvidia-driver").content_string


def test_the_persistence_daemon_runs_and_starts_at_boot(machine: Any) -> None:
    assert machine.service("nvidia-persistenced").is_running
    assert machine.service("nvidia-persistenced").is_enabled
