# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How preflight chooses the driver version and looks up its packages, with a stub of preflight_info."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stubbed_site import Site

PLAYBOOK = """
- name: Choose
  hosts: workers
  gather_facts: false
  tasks:
    - name: Load the settings
      ansible.builtin.import_role:
        name: gpulab.kubernetes.preflight
        tasks_from: settings
    - name: Stand for what was read
      ansible.builtin.set_fact:
        preflight_host: "{{ facts }}"
        __preflight_reading:
          facts: "{{ facts }}"
          settings: "{{ _preflight_host_settings }}"
    - name: Choose
      ansible.builtin.import_role:
        name: gpulab.kubernetes.preflight
        tasks_from: driver
    - name: Read what a change needs
      ansible.builtin.import_role:
        name: gpulab.kubernetes.preflight
        tasks_from: driver_change
    - name: Show it
      ansible.builtin.copy:
        dest: "{{ place }}/found"
        mode: "0644"
        content: >-
          {{ {'choice': __preflight_reading['settings']['driver_choice'], 'version': cluster_driver_version,
              'repositories': __preflight_reading['facts']['repositories']} | to_json }}
"""
OLD, NEW = "580.178.04", "595.91.07"
CONFLICT = {"file": "/etc/apt/sources.list.d/cuda.list", "line": 1, "uri": "https://nvidia"}
FACTS: dict[str, Any] = {
    "os": {"key": "Debian 12", "repository_name": "debian12"},
    "kernel": "6.1.0-40-amd64",
    "gpus": [{"address": "0000:3b:00.0", "device_id": "0x1eb8"}],
    "nvswitches": 0,
    "secure_boot": False,
    "installed": {},
    "kernel_packages": {"image": "", "headers": ["linux-headers-6.1.0-40-amd64"], "compiler": ""},
    "nvidia_driver": {"loaded_version": "", "packages": {}, "origin": "none"},
    "repositories": [
        {"name": "Kubernetes", "missing": {}},
        {"name": "NVIDIA driver", "missing": {}, "conflicts": [CONFLICT]},
    ],
}
ANSWER = {"name": "NVIDIA driver", "missing": {"nvidia-driver-cuda": f"{NEW}-1"}, "conflicts": [CONFLICT]}


def driver(version: str) -> dict[str, Any]:
    packages = {"nvidia-driver-cuda": f"{version}-1", "nvidia-kernel-open-dkms": f"{version}-1"}
    return {"loaded_version": version, "packages": packages, "origin": "cuda_repository"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    made.answer("preflight_info", {"changed": False, "repositories": [ANSWER]}, "NVIDIA driver")
    return made


def play(site: Site, facts: dict[str, Any], **more: Any) -> dict[str, Any]:
    read(site, facts, **more)
    found: dict[str, Any] = json.loads((site.place / "found").read_text())
    return found


def read(site: Site, facts: dict[str, Any], **more: Any) -> str:
    """Run preflight and return its output."""
    ansible = {"nodename": "gpu1", "default_ipv4": {"address": "192.0.2.1"}}
    settings = {"facts": facts, "place": str(site.place), "ansible_facts": ansible, **more}
    status, output = site.play(PLAYBOOK, settings)
    assert status == 0, output
    return " ".join(output.split())


def questions(site: Site) -> list[dict[str, Any]]:
    return [call for call in site.asked("preflight_info") if call.get("repositories")]


def test_bare_host_gets_the_newest_version_and_its_packages_are_looked_up(site: Site) -> None:
    # cp1 is not in this run, and does not answer.
    site.answer("preflight_info", {"failed": True, "msg": "no answer"}, '"controller_time": 0')
    found = play(site, FACTS)
    assert found["choice"]["version"] == found["version"] == NEW
    (question,) = questions(site)
    assert question["repositories"][0]["packages"] == {
        f"nvidia-driver-pinning-{NEW}": "",
        "nvidia-driver-cuda": f"{NEW}-1",
        "nvidia-kernel-open-dkms": f"{NEW}-1",
    }
    assert found["repositories"] == [{"name": "Kubernetes", "missing": {}}, ANSWER]


def test_version_of_a_host_outside_the_run_is_considered(site: Site) -> None:
    site.answer("preflight_info", {"changed": False, **FACTS, "nvidia_driver": driver(OLD)}, '"controller_time": 0')
    assert play(site, FACTS)["version"] == OLD


def test_host_outside_the_run_may_be_unreachable(site: Site) -> None:
    ssh = site.place / "ssh"
    ssh.write_text("#!/bin/sh\necho 'No route to host' >&2\nexit 255\n")
    ssh.chmod(0o755)
    (site.place / "host_vars").mkdir()
    down = {"ansible_connection": "ssh", "ansible_host": "192.0.2.9", "ansible_ssh_executable": str(ssh)}
    (site.place / "host_vars/cp1.json").write_text(json.dumps(down))
    assert play(site, FACTS)["version"] == NEW


def test_finished_host_needs_no_lookup_of_packages(site: Site) -> None:
    installed = {
        f"nvidia-driver-pinning-{NEW}": "595-1",
        "nvidia-driver-cuda": f"{NEW}-1",
        "nvidia-kernel-open-dkms": f"{NEW}-1",
    }
    site.answer("preflight_info", {"failed": True, "msg": "this was not to be asked"})
    found = play(site, {**FACTS, "nvidia_driver": driver(NEW), "installed": installed})
    assert found["version"] == NEW and found["repositories"] == FACTS["repositories"]


def test_packages_are_not_looked_up_for_an_unavailable_version(site: Site) -> None:
    system = {"key": "Debian 13", "repository_name": "debian13"}
    found = play(site, {**FACTS, "os": system}, nvidia_driver_version=OLD)
    assert found["version"] == OLD and found["repositories"] == FACTS["repositories"]


def test_reboot_is_announced_if_nouveau_is_loaded(site: Site) -> None:
    gpus = [{**FACTS["gpus"][0], "driver": "nouveau"}]
    nouveau = {**FACTS, "gpus": gpus, "nvidia_driver": {**FACTS["nvidia_driver"], "nouveau_loaded": True}}
    output = read(site, nouveau)
    assert "nouveau drives 1 of 1 GPUs" in output and "needs a reboot" in output
    # The host is the machine that Ansible runs on, which is not rebooted automatically.
    assert "Reboot this host yourself" in output
    assert "nouveau" not in read(site, {**nouveau, "nvidia_driver": {**driver(NEW), "nouveau_loaded": True}})
    assert "nouveau" not in read(site, nouveau, nvidia_driver_source="preinstalled")
