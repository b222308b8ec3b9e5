# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files with secrets: only root can read them, and no log shows them."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from stubbed_site import REPOSITORY, Site

PLAYBOOK = """
- name: Bring about what the roles want
  hosts: gpu1
  gather_facts: false
  tasks:
    - name: Load the settings that several roles share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Load the states of containerd
      ansible.builtin.import_role:
        name: gpulab.kubernetes.containerd
        tasks_from: settings
    - name: Load the states of Kubernetes
      ansible.builtin.import_role:
        name: gpulab.kubernetes.kubeadm
        tasks_from: settings
    - name: Bring them about
      gpulab.kubernetes.host_state:
        states: "{{ [item] }}"
        apt: "{{ cluster_apt }}"
      loop: "{{ containerd_states + kubeadm_states }}"
      no_log: true
"""
HOST = {
    "os": {"id": "debian", "codename": "bookworm", "key": "Debian 12"},
    "installed": {},
    "gpus": [],
    "resolver": {"systemd_resolved": False, "kubelet": "", "file": "/etc/resolv.conf"},
    "cluster": {"finished": False},
    "node_name": "gpu1",
}
ADDRESSES = {
    "role_path": str(REPOSITORY / "roles/containerd"),
    "cluster_node_address": "192.0.2.11",
    "preflight_host": HOST,
}

# The secret itself, and as containerd sends it.
SECRETS = ("S3CRET", base64.b64encode(b"ci:S3CRET").decode())
APT = [{"machine": "mirror.example.org", "username": "ci", "password": "S3CRET-apt"}]
ROLES = REPOSITORY / "roles"
TEMPLATES = sorted(path for path in ROLES.glob("*/templates/*.j2") if " containers:\n" in path.read_text())
UNITS = "/etc/systemd/system"
PRIVATE = {f"{UNITS}/{unit}.service.d/50-gpulab-proxy.env" for unit in ("containerd", "kubelet")}
PRIVATE.add("/etc/containerd/certs.d/nvcr.io/hosts.toml")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Return the arguments of all states of the roles, by module, with a secret in every setting that may have one."""
    site = Site(tmp_path_factory.mktemp("site"))
    settings = {
        "cluster_http_proxy": "http://user:S3CRET-proxy@proxy.example.org:3128",
        "cluster_apt_credentials": APT,
        "containerd_registry_credentials": [{"registry": "nvcr.io", "username": "ci", "password": "S3CRET-registry"}],
    }
    status, output = site.play(PLAYBOOK, {**ADDRESSES, **settings})
    assert status == 0, output
    return {module: site.asked(module) for module in ("apt_source", "managed_files")}


def test_secrets_are_only_in_private_files(asked: dict[str, list[dict[str, Any]]]) -> None:
    files = {file["path"]: file for call in asked["managed_files"] for file in call["files"]}
    private = {path for path, file in files.items() if any(word in json.dumps(file) for word in SECRETS)}
    assert private == PRIVATE
    for path in private:
        assert files[path]["mode"] == "0600" and not files[path].get("content"), path


def test_each_apt_source_gets_the_credentials(asked: dict[str, list[dict[str, Any]]]) -> None:
    assert [call["credentials"] for call in asked["apt_source"]] == [APT, APT]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: str(path.relative_to(ROLES)))
def test_pods_have_a_token_only_with_their_own_service_account(template: Path) -> None:
    text = template.read_text()
    pods = re.findall(r"^ +containers:", text, re.MULTILINE)
    account = r"serviceAccountName: (?:\S+|\{\{ \w+ \}\})"
    decided = re.findall(rf"^ +(?:{account}|automountServiceAccountToken: false)$", text, re.MULTILINE)
    assert len(decided) == len(pods) > 0
