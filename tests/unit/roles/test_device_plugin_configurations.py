# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device plugin's configurations of all hosts of the cluster, which one DaemonSet serves."""

from __future__ import annotations

from pathlib import Path

from support.programs import run_ansible

INVENTORY = """
[control_plane]
localhost ansible_connection=local
[workers]
gpu1 cluster_gpu_sharing="{'mode': 'time_slicing', 'replicas': 2}"
gpu2 nvidia_device_plugin_sharing="{'mode': 'time_slicing', 'replicas': 3}"
"""
PLAYBOOK = """
- name: Show
  hosts: localhost
  gather_facts: false
  vars:
    ansible_facts: {nodename: cp1, default_ipv4: {address: 192.0.2.1}}
  tasks:
    - name: Load the settings of the cluster
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
        tasks_from: settings
    - name: Load the settings
      ansible.builtin.import_role:
        name: gpulab.kubernetes.nvidia_device_plugin
        tasks_from: settings
    - name: Show
      ansible.builtin.debug:
        msg: "{{ nvidia_device_plugin_configurations }}"
"""


def test_they_contain_those_of_hosts_outside_of_the_run_by_either_name(tmp_path: Path) -> None:
    (tmp_path / "my.ini").write_text(INVENTORY)
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    status, output = run_ansible(tmp_path, "-i", "my.ini", "play.yml")
    assert status == 0, output
    for replicas in (2, 3):
        assert f"time_slicing-{replicas}" in output.replace("time-slicing", "time_slicing")
