# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that identify a host, in the presence of forged facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.programs import run_ansible

HERE = "ansible_connection=local ansible_python_interpreter={{ansible_playbook_python}}"
OTHER = 'hostvars["by-facts"]["ansible_facts"]'
INVENTORY = f"""
[control_plane]
192.0.2.1 {HERE}
[workers]
by-host ansible_host=192.0.2.2 {HERE}
by-variable ansible_host='{{{{ address }}}}' address=192.0.2.3 {HERE}
by-address ansible_host=198.51.100.4 cluster_node_address=192.0.2.4 {HERE}
by-facts ansible_host=198.51.100.5 cluster_node_address='{{{{ ansible_facts["default_ipv4"]["address"] }}}}' {HERE}
by-other-facts ansible_host=198.51.100.6 cluster_node_address='{{{{ {OTHER}["default_ipv4"]["address"] }}}}' {HERE}
ipv6 ansible_host=2001:DB8:0::6 {HERE}
joined ansible_host=198.51.100.7 {HERE}
localhost {HERE}
"""
# Facts of a host whose root user tries to impersonate another host.
FORGED = """
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        facts = {"default_ipv4": {"address": "192.0.2.9"}, "nodename": "victim"}
        if task_vars["inventory_hostname"] != "by-address":
            facts["cluster_node_address"] = "192.0.2.9"
        if task_vars["inventory_hostname"] == "ipv6":
            facts.update(cluster_control_plane_group="workers", kubeadm_joined_node="victim")
        if task_vars["inventory_hostname"] == "by-variable":
            facts["address"] = "192.0.2.9"
        return {"ansible_facts": facts}
"""
PLAYBOOK = """
- name: Identify
  hosts: all
  gather_facts: false
  tasks:
    - name: Load the settings
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
        tasks_from: settings
        rolespec_validate: false
    - name: Identify the hosts before their facts are known
      ansible.builtin.copy:
        content: "{{ cluster_node_identity }}"
        dest: "{{ playbook_dir }}/before-{{ inventory_hostname }}"
      delegate_to: localhost
      when: not ansible_check_mode
    - name: Gather facts
      forged:
    - name: Note a host that has joined
      ansible.builtin.set_fact:
        kubeadm_joined_node: victim
      when: inventory_hostname == 'joined'
    - name: Identify the hosts
      ansible.builtin.copy:
        content: "{{ cluster_node_identity }}"
        dest: "{{ playbook_dir }}/after-{{ inventory_hostname }}"
      delegate_to: localhost
"""


@pytest.mark.parametrize("as_variables", ["false", "true"])
def test_addresses_that_a_host_could_forge_are_ignored(tmp_path: Path, as_variables: str) -> None:
    (tmp_path / "action_plugins").mkdir()
    (tmp_path / "action_plugins/forged.py").write_text(FORGED)
    (tmp_path / "hosts.ini").write_text(INVENTORY)
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    # The default of this setting is true.
    status, output = run_ansible(
        tmp_path, *("play.yml", "-i", "hosts.ini"), ANSIBLE_INJECT_FACT_VARS=as_variables, timeout=600
    )
    assert status == 0, output

    def found(host: str, when: str = "after") -> Any:
        return json.loads((tmp_path / f"{when}-{host}").read_text())

    expected = {
        "192.0.2.1": ["192.0.2.1"],
        "by-host": ["192.0.2.2"],
        "by-variable": ["192.0.2.3"],
        "by-address": ["192.0.2.4", "198.51.100.4"],
        "by-facts": ["198.51.100.5"],
        "by-other-facts": ["198.51.100.6"],
        "ipv6": ["2001:db8::6"],
        "joined": ["198.51.100.7"],
    }
    # The forged fact of by-variable has replaced its inventory variable.
    assert {host: found(host)["addresses"] for host in expected} == {**expected, "by-variable": []}
    assert found("by-variable", "before")["addresses"] == ["192.0.2.3"]
    assert all(found(host)["node"] == "victim" and found(host)["host"] == host for host in expected)
    assert [host for host in expected if found(host)["control_plane"]] == ["192.0.2.1"]
    assert [host for host in expected if found(host)["joined"]] == ["joined"]
    assert "127.0.0.1" in found("localhost")["addresses"]


def test_host_cannot_take_the_name_of_another(tmp_path: Path) -> None:
    (tmp_path / "action_plugins").mkdir()
    (tmp_path / "action_plugins/forged.py").write_text(
        FORGED.replace('"nodename": "victim"', '"inventory_hostname": "by-host"')
    )
    (tmp_path / "hosts.ini").write_text(INVENTORY)
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    status, output = run_ansible(
        tmp_path, *("play.yml", "-i", "hosts.ini", "--limit", "joined"), ANSIBLE_INJECT_FACT_VARS="true", timeout=600
    )
    assert status == 2 and "its facts give it the inventory name 'by-host'" in output, output
