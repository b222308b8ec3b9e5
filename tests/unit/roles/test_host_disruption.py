# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node drained before its pods would be interrupted, and given back, with modules that only note what was asked."""

from __future__ import annotations

from pathlib import Path

from stubbed_site import Site

PLAYBOOK = """
- name: Interrupt
  hosts: gpu1
  gather_facts: false
  tasks:
    - name: Ask
      ansible.builtin.include_role:
        name: gpulab.kubernetes.host
        tasks_from: disruption
      vars:
        host_disruption_reason: a restart
    - name: Check that it is known
      ansible.builtin.assert:
        that: host_drained
    - name: Go on
      ansible.builtin.include_role:
        name: gpulab.kubernetes.host
        tasks_from: disruption_end
    - name: Check that it is over
      ansible.builtin.assert:
        that: not host_drained
"""


def test_a_play_that_works_against_the_api_keeps_its_kubeconfig(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()
    site = Site(tmp_path)
    site.answer("gpu_pods_info", {"changed": False, "pods": [{"namespace": "team", "name": "train"}]})
    site.answer("node_maintenance", {"changed": True})
    settings = {
        "kubeadm_kubeconfig": str(kubeconfig),
        "cluster_node_name": "gpu1",
        "cluster_disruption_policy": "drain",
        "ansible_become": False,
    }
    status, output = site.play(PLAYBOOK, settings)
    assert status == 0, output
    asked = site.asked("node_maintenance")
    assert [(each["state"], each["drain"], each["kubeconfig"]) for each in asked] == [
        ("begun", True, str(kubeconfig)),
        ("ended", False, str(kubeconfig)),
    ]
    assert kubeconfig.exists()
