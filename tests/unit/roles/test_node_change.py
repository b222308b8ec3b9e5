# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node drained before its pods would be interrupted, and given back, with modules that only note what was asked."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from stubbed_site import Site

PLAYBOOK = """
- name: Interrupt
  hosts: gpu1
  gather_facts: false
  tasks:
    - name: Ask
      ansible.builtin.include_role:
        name: gpulab.kubernetes.node_change
        tasks_from: hold
      vars:
        node_change_reason: a restart
    - name: Check that it is known
      ansible.builtin.assert:
        that: node_change_drained
    - name: Go on
      ansible.builtin.include_role:
        name: gpulab.kubernetes.node_change
        tasks_from: release
    - name: Check that it is over
      ansible.builtin.assert:
        that: not node_change_drained
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    pod = {"namespace": "team", "name": "train", "empty_dirs": ["cache", "scratch"]}
    made.answer("gpu_pods_info", {"changed": False, "pods": [pod]})
    made.answer("node_maintenance", {"changed": True})
    return made


@pytest.mark.parametrize("of_the_play", [True, False], ids=["the play's", "its own"])
def test_a_kubeconfig_is_removed_by_what_has_fetched_it(site: Site, tmp_path: Path, of_the_play: bool) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    settings = {"cluster_node_name": "gpu1", "cluster_disruption_policy": "drain", "ansible_become": False}
    if of_the_play:
        kubeconfig.touch()
        settings["cluster_api_kubeconfig"] = str(kubeconfig)
    else:
        text = "clusters: [{cluster: {server: https://cp1}}]\nusers: [{user: {token: t}}]\n"
        file = {"content": base64.b64encode(text.encode()).decode()}
        settings |= {"__cluster_api_file": file, "_cluster_api_private_file": str(kubeconfig) + "{{ 999 | random }}"}
    status, output = site.play(PLAYBOOK, settings)
    assert status == 0, output
    assert "Draining gpu1 deletes what pods have in emptyDir volumes: team/train: cache, scratch" in output
    asked = site.asked("node_maintenance")
    # Each time, it has another name.
    used = [re.sub("[0-9]*$", "", each["kubeconfig"]) for each in asked]
    assert [(each["state"], each["drain"], path) for each, path in zip(asked, used, strict=True)] == [
        ("begun", True, str(kubeconfig)),
        ("ended", False, str(kubeconfig)),
    ]
    files = [file for each in site.asked("managed_files") for file in each["files"]]
    removed = [
        re.sub("kubeconfig[0-9]*", "kubeconfig", file["path"]) for file in files if file.get("state") == "absent"
    ]
    assert removed == ([] if of_the_play else [str(kubeconfig), f"{kubeconfig}.patience"] * 2)
