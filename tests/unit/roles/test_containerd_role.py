# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd isn't restarted with a configuration that it can't read or that Kubernetes can't use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stubbed_site import Site

PLAYBOOK = """
- name: Restart
  hosts: workers
  gather_facts: false
  tasks:
    - name: Load the settings that several roles share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Restart
      ansible.builtin.include_role:
        name: gpulab.kubernetes.containerd
        tasks_from: service
"""
RUNC = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n"
BROKEN = {"config_error": "/etc/containerd/conf.d/x.toml: invalid character", "config_dump": "", "files": []}
CGROUPFS = {"config_error": "", "config_dump": f"version = 3\n{RUNC}options = {{SystemdCgroup = false}}\n", "files": []}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, str]:
    site = Site(tmp_path_factory.mktemp("site"), workers=["gpu1", "gpu2"], further=["containerd_info"])
    site.answer("managed_service", {"changed": True, "actions": ["restart"], "restart": True})
    site.answer("containerd_info", {"version": "2.3.6", **BROKEN}, host="gpu1")
    site.answer("containerd_info", {"version": "2.3.6", **CGROUPFS}, host="gpu2")
    status, output = site.play(PLAYBOOK, {"preflight_host": {"installed": {}}, "cluster_disruption_policy": "ignore"})
    assert status != 0
    return site, " ".join(output.split())


def test_errors_name_the_setting_to_correct(ended: tuple[Site, str]) -> None:
    _site, output = ended
    assert f"Error while reading containerd's configuration: {BROKEN['config_error']}. Correct or remove" in output
    assert "the runtime runc has no SystemdCgroup. Correct the drop-in that sets this" in output


def test_containerd_is_not_restarted_with_a_broken_configuration(ended: tuple[Site, str]) -> None:
    site, output = ended
    assert output.count("containerd has not been restarted") >= 2
    calls: list[dict[str, Any]] = [event for event in site.events() if event["event"] == "call"]
    assert [call["check"] for call in calls if call["module"] == "managed_service"] == [True, True]


def test_a_deferred_restart_leaves_nothing_else_of_containerd_pending(tmp_path: Path) -> None:
    site = Site(tmp_path, further=["containerd_info"])
    site.answer("managed_service", {"changed": True, "actions": ["restart"], "restart": True})
    config = f"version = 3\n{RUNC}options = {{SystemdCgroup = true}}\n"
    site.answer("containerd_info", {"version": "2.3.6", "config_error": "", "config_dump": config, "files": []})
    site.answer("gpu_pods_info", {"pods": [{"uid": "u1", "namespace": "team", "name": "train", "empty_dirs": []}]})
    site.answer("node_maintenance", {"changed": True, "jobs": {}})
    settings = {
        "preflight_host": {"installed": {}},
        "cluster_disruption_policy": "defer",
        "cluster_api_kubeconfig": "/nowhere",
        "ansible_become": False,
        "run_role_name": "containerd",
        "plan_pending": {"containerd": ["configuration"], "nvidia_container_toolkit": ["packages"]},
    }
    status, output = site.play(PLAYBOOK, settings)
    assert status == 0, output
    (written,) = [call["files"][0] for call in site.asked("managed_files")]
    assert json.loads(written["content"])["disruption"]["pending"] == "nvidia_container_toolkit: packages"
