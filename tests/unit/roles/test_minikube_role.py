# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments that the role minikube passes to modules, recorded by stubs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stubbed_site import Site

PLAYBOOK = """
- name: Run minikube
  hosts: gpu1
  gather_facts: false
  vars:
    cluster_control_plane_group: workers
  tasks:
    - name: Load the settings that several roles share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Load the settings of Kubernetes' repository
      ansible.builtin.import_role:
        name: gpulab.kubernetes.kubeadm
        tasks_from: settings
    - name: Run the profile
      ansible.builtin.import_role:
        name: gpulab.kubernetes.minikube
        tasks_from: profile
    - name: Apply what goes with it
      gpulab.kubernetes.host_state:
        states: "{{ _minikube_states }}"
"""
HOST = {"os": {"id": "debian", "codename": "bookworm", "key": "Debian 12"}, "installed": {}, "gpus": []}
SECRET = "S3CRET-proxy"
PROXY = f"http://user:{SECRET}@proxy.example.org:3128"


def asked(place: Path, **settings: Any) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the arguments of the module minikube_profile, and the managed files by name."""
    site = Site(place)
    site.answer("minikube_profile", {"home": "/root"})
    found = {"preflight_host": HOST, "cluster_node_address": "192.0.2.11"}
    status, output = site.play(PLAYBOOK, {**found, **settings})
    assert status == 0, output
    (profile,) = site.asked("minikube_profile")
    files = [file for call in site.asked("managed_files") for file in call["files"]]
    return profile, {file["path"].rpartition("/")[2]: file for file in files}


def test_minikube_and_its_unit_use_the_proxy_of_the_cluster(tmp_path: Path) -> None:
    profile, files = asked(tmp_path, cluster_http_proxy=PROXY, cluster_no_proxy=[".example.org"])
    assert profile["http_proxy"] == profile["https_proxy"] == PROXY
    assert {".example.org", "192.0.2.11", "gpu1", "192.168.49.0/24", "10.96.0.0/12"} <= set(profile["no_proxy"])
    private = files.pop("50-gpulab-proxy.env")
    assert private["path"] == "/etc/systemd/system/minikube-minikube.service.d/50-gpulab-proxy.env"
    assert private["mode"] == "0600" and PROXY in private["secret_content"]
    assert ",".join(profile["no_proxy"]) in private["secret_content"]
    assert SECRET not in json.dumps(files)
    assert "50-gpulab-proxy.env" in files["50-gpulab-proxy.conf"]["content"]


def test_proxy_files_are_absent_without_a_proxy_or_unit(tmp_path: Path) -> None:
    for name, settings in (("none", {}), ("unit", {"cluster_http_proxy": PROXY, "minikube_start_at_boot": False})):
        (tmp_path / name).mkdir()
        _profile, files = asked(tmp_path / name, **settings)
        assert files["50-gpulab-proxy.env"]["state"] == files["50-gpulab-proxy.conf"]["state"] == "absent"


def test_newest_kubernetes_supported_by_minikube_is_the_default(tmp_path: Path) -> None:
    profile, _files = asked(tmp_path)
    assert (profile["kubernetes_version"], profile["http_proxy"]) == ("1.35.1", "")
