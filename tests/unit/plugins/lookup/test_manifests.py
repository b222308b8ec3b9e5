# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup manifests, compared with the lookup template and the filter from_yaml_all."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.programs import run_ansible

REPOSITORY = Path(__file__).resolve().parents[4]
# Templates with includes, conditions, and their own indentation.
TEMPLATES = ["flannel/templates/flannel.yml.j2", "nvidia_device_plugin/templates/nvidia-device-plugin.yml.j2"]
PLAYBOOK = """
- name: Render
  hosts: localhost
  gather_facts: false
  vars:
    cluster_control_plane: localhost
    ansible_facts: {{nodename: cp1, default_ipv4: {{address: 192.0.2.1}}}}
    cluster_gpu_sharing: {{mode: time_slicing, replicas: 2}}
    ours: "{{{{ lookup('gpulab.kubernetes.manifests', '{template}') }}}}"
    theirs: "{{{{ lookup('ansible.builtin.template', '{roles}/{template}') | from_yaml_all | select | list }}}}"
  tasks:
    - name: Load the settings that several roles share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Load the settings
      ansible.builtin.import_role:
        name: gpulab.kubernetes.{role}
        tasks_from: settings
    - name: Compare
      ansible.builtin.assert:
        that: [ours == theirs, ours | length > 3]
"""


@pytest.mark.parametrize("template", TEMPLATES)
def test_objects_match_the_rendered_template(tmp_path: Path, template: str) -> None:
    text = PLAYBOOK.format(template=template, roles=REPOSITORY / "roles", role=template.partition("/")[0])
    (tmp_path / "play.yml").write_text(text)
    status, output = run_ansible(tmp_path, "play.yml")
    assert status == 0, output


@pytest.mark.parametrize(
    ("term", "said"),
    [
        ("flannel/templates/none.yml.j2", "none.yml.j2: No such file or directory"),
        ("flannel/README.md", "Error while reading the manifests of "),
    ],
)
def test_invalid_manifest_is_one_error(tmp_path: Path, term: str, said: str) -> None:
    task = f"  tasks: [{{debug: {{msg: \"{{{{ lookup('gpulab.kubernetes.manifests', '{term}') }}}}\"}}}}]\n"
    (tmp_path / "play.yml").write_text("- hosts: localhost\n  gather_facts: false\n" + task)
    status, output = run_ansible(tmp_path, "play.yml")
    assert said in output and status, output
