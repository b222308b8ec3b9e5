# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the role acceptance reads a host, with stubbed modules that return given answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stubbed_site import Site

PLAYBOOK = """
- name: Look
  hosts: gpu1
  gather_facts: false
  become: false
  tasks:
    - name: Load the settings that several roles share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Load the pinned versions
      ansible.builtin.import_role:
        name: gpulab.kubernetes.acceptance
        tasks_from: versions
    - name: Look
      ansible.builtin.import_role:
        name: gpulab.kubernetes.acceptance
        tasks_from: hosts
    - name: Show it
      ansible.builtin.copy:
        dest: "{{ place }}/found"
        mode: "0644"
        content: "{{ {'host': acceptance_seen['host'], 'seen': acceptance_seen} | to_json }}"
"""
FOUND: dict[str, Any] = {
    "pci": [{"address": "0000:3b:00.0", "device_id": "0x1eb8"}],
    "packages": {},
    "held": {},
    "containerd_files": [],
    "apt_keys": [],
    "certificates": {},
    "given_back": "",
}
GPU = {"index": 0, "uuid": "GPU-0"}
FINE: dict[str, Any] = {"state": "ok", "message": None, "advice": None, "driver_version": "580.178.04", "gpus": [GPU]}
LOST = {**FINE, "state": "driver_not_loaded", "message": "It failed. ", "advice": "Reboot.", "gpus": []}
NOTHING = {"state": "ok", "complaint": "", "advice": "", "driver": "", "gpus": []}


def play(site: Site, driver: dict[str, Any], **more: Any) -> dict[str, Any]:
    site.answer("gpu_host_info", {**FOUND, "nvidia_smi": driver})
    settings = {
        "place": str(site.place),
        "ansible_facts": {"nodename": "gpu1", "default_ipv4": {"address": "192.0.2.1"}},
        "ansible_become": False,
        **more,
    }
    status, output = site.play(PLAYBOOK, settings)
    assert status == 0, output
    found: dict[str, Any] = json.loads((site.place / "found").read_text())
    return found


@pytest.mark.parametrize(
    ("driver", "host"),
    [
        (FINE, {**NOTHING, "driver": "580.178.04", "gpus": [GPU]}),
        (
            {**LOST, "driver_version": None},
            {**NOTHING, "state": LOST["state"], "complaint": "It failed", "advice": "Reboot."},
        ),
        ({}, NOTHING),
    ],
)
def test_driver_state_is_stored_for_the_host_and_in_the_report(
    tmp_path: Path, driver: dict[str, Any], host: dict[str, Any]
) -> None:
    site = Site(tmp_path)
    found = play(site, driver)
    assert {name: found["host"][name] for name in host} == host
    assert found["host"]["pci"] == 1 and found["seen"]["reading"]["nvidia_smi"] == driver
    asked = {"driver_root": "/", "expected_gpus": 0, "xids_since": ""}
    assert [each["nvidia_smi"] for each in site.asked("gpu_host_info")] == [asked]
    assert site.asked("nvidia_smi_info") == site.asked("nvidia_mig") == []


def test_driver_in_a_pod_is_read_by_the_same_module(tmp_path: Path) -> None:
    site = Site(tmp_path)
    more = {"cluster_expected_gpus": 2, "cluster_ignored_gpus": ["10de:128b"], "acceptance_xids_since": "2026"}
    play(site, FINE, nvidia_driver_source="daemonset", **more)
    assert [each["ignored_gpus"] for each in site.asked("gpu_host_info")] == [["10de:128b"]]
    asked = {"driver_root": "/opt/nvidia/driver", "expected_gpus": 2, "xids_since": "2026"}
    assert [each["nvidia_smi"] for each in site.asked("gpu_host_info")] == [asked]
    assert site.asked("nvidia_smi_info") == site.asked("nvidia_mig") == []


BARE = """
- name: Look
  hosts: gpu1
  gather_facts: false
  become: false
  check_mode: true
  tasks:
    - name: Verify
      ansible.builtin.import_role:
        name: gpulab.kubernetes.acceptance
"""


@pytest.mark.parametrize("gpus", [0, 1, 3])
def test_check_mode_without_a_cluster_only_predicts_gpus_that_were_found(tmp_path: Path, gpus: int) -> None:
    site = Site(tmp_path)
    site.answer("gpu_host_info", {**FOUND, "pci": FOUND["pci"] * gpus, "nvidia_smi": {}})
    status, output = site.play(BARE, {"cluster_api_kubeconfig": "", "ansible_facts": {"nodename": "gpu1"}})
    assert status == 0, output
    assert f"GPUs on the PCI buses of the hosts: {gpus}." in " ".join(output.split())
    assert f'{"changed" if gpus else "ok"}: [gpu1] => {{\n    "msg": "There is no cluster yet.' in output
    assert site.asked("gpu_acceptance") == []


@pytest.mark.parametrize(("driver", "compared"), [(FINE, True), (LOST, True), ({}, False)])
def test_mig_devices_are_compared_if_the_driver_was_read(
    tmp_path: Path, driver: dict[str, Any], compared: bool
) -> None:
    site = Site(tmp_path)
    site.answer("nvidia_mig", {"differs": False, "gpus": [{**GPU, "profiles": ["1g.5gb"]}]})
    play(site, driver, cluster_gpu_sharing={"mode": "mig", "layout": ["1g.5gb"]})
    assert bool(site.asked("nvidia_mig")) is compared
