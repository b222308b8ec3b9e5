# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How verify reports hosts that differ from the pinned state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from stubbed_site import Site

PLAYBOOK = """
- name: Look
  hosts: all
  gather_facts: false
  tasks:
    - name: Look
      ansible.builtin.import_role:
        name: gpulab.kubernetes.drift
    - name: Judge
      ansible.builtin.import_role:
        name: gpulab.kubernetes.drift
        tasks_from: judge
"""
ROLES = Path(__file__).resolve().parents[3] / "roles"
TABLE = yaml.safe_load((ROLES / "cluster/vars/main/versions.yml").read_text())["cluster_versions"]


def default(role: str, name: str) -> str:
    """Return the default value of a role variable."""
    return str(yaml.safe_load((ROLES / role / "defaults/main.yml").read_text())[name])


TOOLKIT = default("nvidia_container_toolkit", "nvidia_container_toolkit_version")
VERSIONS = {
    **TABLE["kubernetes"][default("cluster", "cluster_kubernetes_version")]["packages"],
    "containerd.io": "2.3.6-1~debian.13~trixie",
    **dict.fromkeys(("nvidia-container-toolkit", "nvidia-container-toolkit-base"), f"{TOOLKIT}-1"),
    **dict.fromkeys(("libnvidia-container-tools", "libnvidia-container1"), f"{TOOLKIT}-1"),
}
DRIVER = "580.178.04"


def installed(driver: str = DRIVER) -> dict[str, Any]:
    return {
        "changed": False,
        "packages": {name: {"version": version, "held": True} for name, version in VERSIONS.items()},
        "driver": {
            "loaded": driver,
            "library": DRIVER,
            "packages": {"nvidia-open-580": {"version": f"{DRIVER}-1", "held": True}},
        },
        "kernel": {"running": "6.1", "newest": "6.1", "newest_has_driver": True, "newest_has_headers": True},
        "swap": [],
        "deferred": "",
        "pci": [{}],
    }


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    made.answer("managed_files", {"changed": False, "files": [], "kept": [], "services": []})
    made.answer("gpu_host_info", installed())
    return made


SETTINGS = {
    "ansible_facts": {"nodename": "x", "default_ipv4": {"address": "192.0.2.1"}},
    "nvidia_driver_version": DRIVER,
}


def report(site: Site) -> dict[str, Any]:
    (written,) = [
        call for call in site.asked("managed_files") if call["files"][0]["path"].endswith("gpulab-drift-report.json")
    ]
    read: dict[str, Any] = json.loads(written["files"][0]["content"])
    return read


def test_hosts_in_the_pinned_state_have_no_drift(site: Site) -> None:
    status, output = site.play(PLAYBOOK, SETTINGS)
    assert status == 0, output
    assert "Every host is as it is pinned." in output
    assert report(site)["drift"] == [] and set(report(site)["hosts"]) == {"gpu1", "cp1"}


def test_automatic_driver_version_accepts_any_version_in_the_table(site: Site) -> None:
    status, output = site.play(PLAYBOOK, {**SETTINGS, "nvidia_driver_version": "auto"})
    assert status == 0, output
    wanted = report(site)["hosts"]["gpu1"]["wanted"]
    assert wanted["driver"] == "auto" and wanted["pool"] == "" and DRIVER in wanted["versions"]


def test_drift_fails_the_run_after_the_report_is_written(site: Site) -> None:
    site.answer("gpu_host_info", installed("595.91.07"))
    site.answer("managed_files", {"changed": True, "files": ["/etc/x.toml"], "kept": [], "services": []}, "50-nvidia")
    status, output = site.play(PLAYBOOK, SETTINGS)
    assert status != 0
    assert "gpu1: NVIDIA driver: expected 580.178.04, found 595.91.07" in output
    rows = report(site)["drift"]
    assert {(row["host"], row["component"]) for row in rows} == {
        (host, component) for host in ("gpu1", "cp1") for component in ("NVIDIA driver", "/etc/x.toml")
    }


@pytest.mark.parametrize("others", [False, True], ids=["deferred", "another difference"])
def test_a_difference_that_a_deferred_change_corrects_is_a_warning(site: Site, others: bool) -> None:
    entry = {"since": "2026-11-01T10:00:00Z", "change": "a change", "users": ["team/train"]}
    record = json.dumps({"disruption": {**entry, "pending": "nvidia_driver: packages, kernel module"}})
    site.answer("gpu_host_info", {**installed("570.1.02"), "deferred": record}, host="gpu1")
    if others:
        area = {"name": "/mnt/swapfile", "origin": ""}
        site.answer("gpu_host_info", {**installed("570.1.02"), "deferred": record, "swap": [area]}, host="gpu1")
    status, output = site.play(PLAYBOOK, SETTINGS)
    shown, _judge, failed = " ".join(output.split()).partition("Fail if a host differs from its pinned state")
    warning = (
        "WARNING: gpu1: NVIDIA driver: expected 580.178.04, found 570.1.02. a change has been deferred since "
        "2026-11-01T10:00:00Z (pending: nvidia_driver: packages, kernel module), blocked by team/train."
    )
    assert (status != 0, warning in shown) == (others, True), output
    assert "NVIDIA driver" not in failed and ("/mnt/swapfile" in failed) == others
    assert [row["component"] for row in report(site)["drift"]] == ["NVIDIA driver"] + ["swap"] * others


@pytest.mark.parametrize(
    ("source", "compared"),
    [("cuda_repository", True), ("distribution", True), ("preinstalled", False), ("daemonset", False)],
)
def test_next_kernel_is_only_checked_for_packaged_drivers(site: Site, source: str, compared: bool) -> None:
    kernel = {"running": "6.1", "newest": "6.2", "newest_has_driver": False, "newest_has_headers": False}
    site.answer("gpu_host_info", {**installed(), "kernel": kernel})
    site.play(PLAYBOOK, {**SETTINGS, "nvidia_driver_source": source})
    found = {row["component"] for row in report(site)["drift"]}
    assert found == ({"kernel of the next boot"} if compared else set())


def test_enabled_swap_is_named_with_its_origin(site: Site) -> None:
    area = {"name": "/mnt/swapfile", "origin": "Azure's agent (/etc/waagent.conf)"}
    site.answer("gpu_host_info", {**installed(), "swap": [area]})
    status, output = site.play(PLAYBOOK, SETTINGS)
    assert status != 0
    assert "found /mnt/swapfile, turned on by Azure's agent (/etc/waagent.conf)" in output
    assert {row["component"] for row in report(site)["drift"]} == {"swap"}


def test_unreadable_host_is_named(site: Site) -> None:
    site.answer("gpu_host_info", {"failed": True, "msg": "Error while reading /var/lib/dpkg/status: damaged"})
    status, output = site.play(PLAYBOOK, SETTINGS)
    assert status != 0 and "dpkg/status: damaged" in output
    assert [row["component"] for row in report(site)["drift"]] == ["host", "host"]
