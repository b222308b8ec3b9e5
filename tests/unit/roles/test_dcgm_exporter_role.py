# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that the role dcgm_exporter applies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.programs import run_ansible

ROLE = Path(__file__).resolve().parents[3] / "roles" / "dcgm_exporter"
PLAYBOOK = """
- name: Render
  hosts: localhost
  gather_facts: false
  vars_files: [{role}/defaults/main.yml, {role}/vars/main.yml]
  vars: {{cluster_digests: {{}}, cluster_versions: {{dcgm_exporter: "1"}}}}
  tasks:
    - name: Write the objects
      ansible.builtin.copy: {{content: "{{{{ _dcgm_exporter_definitions | to_json }}}}", dest: {out}}}
"""


def rendered(tmp_path: Path, **settings: Any) -> dict[str, dict[str, Any]]:
    (tmp_path / "play.yml").write_text(PLAYBOOK.format(role=ROLE, out=tmp_path / "objects.json"))
    status, output = run_ansible(tmp_path, "play.yml", "-e", json.dumps(settings))
    assert status == 0, output
    return {one["kind"]: one for one in json.loads((tmp_path / "objects.json").read_text())}


def test_exporter_has_a_single_capability(tmp_path: Path) -> None:
    found = rendered(tmp_path)
    assert set(found) == {"Namespace", "Service", "DaemonSet"}
    pod = found["DaemonSet"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["securityContext"] == {
        "runAsUser": 0,
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]},
    }
    assert "imagePullSecrets" not in pod


def test_declared_counters_and_pull_secrets_are_used(tmp_path: Path) -> None:
    text = "DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).\n# 100 %\n"
    found = rendered(tmp_path, dcgm_exporter_counters=text, dcgm_exporter_image_pull_secrets=["registry"])
    template = found["DaemonSet"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert found["ConfigMap"]["data"] == {"counters.csv": text}
    assert {"name": "DCGM_EXPORTER_COLLECTORS", "value": "/etc/gpulab/counters.csv"} in container["env"]
    assert {"name": "counters", "mountPath": "/etc/gpulab", "readOnly": True} in container["volumeMounts"]
    assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    other = rendered(tmp_path, dcgm_exporter_counters=text + "#")
    assert other["DaemonSet"]["spec"]["template"]["metadata"]["annotations"] != template["metadata"]["annotations"]
