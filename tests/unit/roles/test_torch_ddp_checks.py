# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the role in check mode on this machine: rejected settings, and settings that a benchmark ignores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.programs import run_ansible

PLAYBOOK = """
- name: Run a part of the role
  hosts: localhost
  gather_facts: false
  vars: {vars}
  module_defaults:
    group/gpulab.kubernetes.api:
      kubeconfig: "{{{{ cluster_api_kubeconfig }}}}"
  tasks:
    - name: Run it
      ansible.builtin.include_role:
        name: gpulab.kubernetes.torch_ddp
        tasks_from: {part}
"""

RENDER = """
- name: Render the job
  hosts: localhost
  gather_facts: false
  vars: {vars}
  tasks:
    - name: Load the settings
      ansible.builtin.import_role:
        name: gpulab.kubernetes.torch_ddp
        tasks_from: settings
    - name: Write the job
      ansible.builtin.copy:
        content: "{{{{ lookup('gpulab.kubernetes.manifests', 'torch_ddp/templates/job.yml.j2') | first | to_json }}}}"
        dest: {folder}/job.json
        mode: "0600"
"""


def run(folder: Path, part: str, **variables: Any) -> tuple[int, str]:
    given = {
        "cluster_api_kubeconfig": str(folder / "admin.conf"),
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        **variables,
    }
    (folder / "play.yml").write_text(PLAYBOOK.format(vars=json.dumps(given), part=part))
    code, output = run_ansible(folder, "-i", "localhost,", "-c", "local", "play.yml", "--check")
    return code, " ".join(output.split())


@pytest.mark.parametrize(
    ("part", "variables", "complaint"),
    [
        ("main", {"torch_ddp_node_selector": {"gpu": True}}, "values of torch_ddp_node_selector must be texts"),
        ("main", {"torch_ddp_env": {"DEBUG": True}}, "values of torch_ddp_env must be texts or numbers"),
        ("main", {"torch_ddp_env": {"EMPTY": None}}, "values of torch_ddp_env must be texts or numbers"),
        ("benchmark_network", {"torch_ddp_nodes": 1}, "an all-reduce needs 2 nodes or more"),
    ],
    ids=[
        "label that is not a string",
        "boolean in the environment",
        "null in the environment",
        "benchmark of one node",
    ],
)
def test_unusable_settings_are_refused(tmp_path: Path, part: str, variables: dict[str, Any], complaint: str) -> None:
    code, output = run(tmp_path, part, **variables)
    assert (code, complaint in output) == (2, True), output


def test_benchmark_ignores_the_script_and_volumes_of_a_training(tmp_path: Path) -> None:
    code, output = run(tmp_path, "benchmark_network", torch_ddp_script="/no/such/train.py", torch_ddp_volumes={"/d": 1})
    assert code == 0, output


def test_check_mode_shows_what_would_be_trained(tmp_path: Path) -> None:
    code, output = run(tmp_path, "main", torch_ddp_image="ddp:1", torch_ddp_gpus_per_node=4)
    assert (code, "Would train with ddp:1 on 2 nodes, with 4 GPUs and 4 processes on each" in output) == (0, True), (
        output
    )


def test_default_images_are_candidates_if_none_is_set(tmp_path: Path) -> None:
    code, output = run(tmp_path, "main")
    assert (code, "2.9.1-cuda12.8-cudnn9-runtime or docker.io/pytorch/pytorch:2.9.1-cuda12.6" in output) == (0, True), (
        output
    )


@pytest.mark.parametrize(
    ("variables", "resources", "priority"),
    [
        ({}, {"requests": {"cpu": "500m", "memory": "4Gi"}, "limits": {"nvidia.com/gpu": 1}}, None),
        (
            {"torch_ddp_resources": {"limits": {"memory": "64Gi"}}, "torch_ddp_priority_class": "urgent"},
            {"limits": {"memory": "64Gi", "nvidia.com/gpu": 1}},
            "urgent",
        ),
    ],
)
def test_training_pod_requests_cpu_or_memory_and_is_not_evicted_first(
    tmp_path: Path, variables: dict[str, Any], resources: dict[str, Any], priority: str | None
) -> None:
    given = {"torch_ddp_script": "/train.py", **variables}
    (tmp_path / "play.yml").write_text(RENDER.format(vars=json.dumps(given), folder=tmp_path))
    code, output = run_ansible(tmp_path, "-i", "localhost,", "-c", "local", "play.yml")
    assert code == 0, output
    pod = json.loads((tmp_path / "job.json").read_text())["spec"]["template"]["spec"]
    assert (pod["containers"][0]["resources"], pod.get("priorityClassName")) == (resources, priority)
    word = next(each for each in pod["containers"][0]["env"] if each["name"] == "LAUNCH_WORD")
    assert word["valueFrom"] == {"secretKeyRef": {"name": "torch-ddp", "key": "word"}}
    # Without CPU or memory, the pod's quality of service would be BestEffort.
    asked = {name for amounts in pod["containers"][0]["resources"].values() for name in amounts}
    assert asked & {"cpu", "memory"}
