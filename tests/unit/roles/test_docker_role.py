# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages that the role docker installs, and hosts that it treats as Kubernetes nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.programs import run_ansible

ROLES = Path(__file__).resolve().parents[3] / "roles"
FILES = [ROLES / "docker/defaults/main.yml", ROLES / "docker/vars/main.yml", ROLES / "cluster/vars/main/versions.yml"]
PLAYBOOK = """
- name: Render
  hosts: localhost
  gather_facts: false
  vars_files: {files}
  tasks:
    - name: Write what the role would use
      ansible.builtin.copy:
        content: >-
          {{{{ {{'packages': _docker_packages | gpulab.kubernetes.select_enabled, 'given': _docker_given}}
             | to_json }}}}
        dest: {out}
"""
WANTED = {
    "docker-ce": "5:29.8.2-1~debian.13~trixie",
    "docker-ce-cli": "5:29.8.2-1~debian.13~trixie",
    "docker-buildx-plugin": "0.37.1-1~debian.13~trixie",
    "docker-compose-plugin": "5.6.0-1~debian.13~trixie",
}


def rendered(tmp_path: Path, installed: dict[str, str], policy: str = "refuse", **settings: Any) -> dict[str, Any]:
    host = {"os": {"key": "Debian 13"}, "installed": installed, "gpus": [], "cluster": {"finished": False}}
    node = {"member": False}
    found = {"preflight_host": {**host, "other_clusters": []}, "cluster_node": node}
    given = {**found, "cluster_existing_packages": policy, **settings}
    out = tmp_path / "out.json"
    (tmp_path / "play.yml").write_text(PLAYBOOK.format(files=json.dumps(list(map(str, FILES))), out=out))
    status, output = run_ansible(tmp_path, "play.yml", "-e", json.dumps(given))
    assert status == 0, output
    loaded: dict[str, Any] = json.loads(out.read_text())
    return loaded


@pytest.mark.parametrize(
    ("installed", "policy", "other"),
    [
        ({}, "refuse", {}),
        ({"docker-ce": "5:29.2.0-1"}, "keep", {"docker-ce": "5:29.2.0-1", "docker-ce-cli": "5:29.2.0-1"}),
        ({"docker-ce": "5:29.1.5-1"}, "keep", {}),
        ({"docker-buildx-plugin": "0.38.2-1"}, "refuse", {"docker-buildx-plugin": "0.38.2-1"}),
        ({"docker-buildx-plugin": "0.38.2-1"}, "replace", {}),
        ({"docker-buildx-plugin": "0.30.1-1", "docker-compose-plugin": "5.1.1-1"}, "refuse", {}),
    ],
)
def test_version_that_is_new_enough_is_kept(
    tmp_path: Path, installed: dict[str, str], policy: str, other: dict[str, str]
) -> None:
    found = rendered(tmp_path, installed, policy)["packages"]
    assert {package["name"]: package["version"] for package in found} == {**WANTED, **other}


def test_only_declared_plugins_are_installed(tmp_path: Path) -> None:
    names = [package["name"] for package in rendered(tmp_path, {}, docker_plugins=["buildx"])["packages"]]
    assert names == ["docker-ce", "docker-ce-cli", "docker-buildx-plugin"]


@pytest.mark.parametrize(
    ("settings", "kubernetes"),
    [({}, False), ({"ansible_parent_role_names": ["gpulab.kubernetes.minikube"]}, True)],
)
def test_minikube_host_counts_as_kubernetes_node(tmp_path: Path, settings: dict[str, Any], kubernetes: bool) -> None:
    assert rendered(tmp_path, {}, **settings)["given"]["kubernetes"] is kubernetes
