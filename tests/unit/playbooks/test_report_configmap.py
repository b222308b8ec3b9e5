# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Summary of the report in the cluster, with an API server that stores objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import report_samples
from fake_cluster import FakeCluster
from support.programs import run_ansible

STORED = "/api/v1/namespaces/kube-system/configmaps/gpulab-report"
PLAY = """
- name: Write
  hosts: here
  gather_facts: false
  module_defaults:
    group/gpulab.kubernetes.api:
      kubeconfig: "{{ cluster_api_kubeconfig }}"
  tasks:
    - name: Load the settings that several roles share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Take the settings
      ansible.builtin.import_role:
        name: gpulab.kubernetes.acceptance
        tasks_from: settings
    - name: Write
      ansible.builtin.import_role:
        name: gpulab.kubernetes.report
        tasks_from: write
      vars:
        acceptance_result: {report: "{{ lookup('ansible.builtin.file', 'found.json') | from_json }}", changed: false}
"""
INVENTORY = (
    "here ansible_connection=local ansible_become=false ansible_python_interpreter={{ansible_playbook_python}}\n"
)


def run(folder: Path, *arguments: str) -> str:
    status, said = run_ansible(folder, "play.yml", "-i", "research.ini", *arguments)
    assert status == 0, said
    return said


@pytest.fixture
def cluster() -> FakeCluster:
    fake = FakeCluster()
    fake.resources["/api/v1"] = [("ConfigMap", "configmaps", True)]
    return fake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "research.ini").write_text(INVENTORY)
    (tmp_path / "found.json").write_text(json.dumps(report_samples.ill()))
    return tmp_path


def test_configmap_is_written_again_only_if_the_report_differs(folder: Path, cluster: FakeCluster) -> None:
    with cluster.serve(folder) as kubeconfig:
        wanted = ("-e", f"cluster_api_kubeconfig={kubeconfig}", "-e", "report_configmap=true")
        assert "changed=1" in run(folder, *wanted, "--check")
        assert STORED not in cluster.objects
        assert "changed=1" in run(folder, *wanted)
        stored = json.loads(cluster.objects[STORED]["data"]["report.json"])
        assert (stored["verdict"], stored["cluster"]["name"], stored["totals"]["gpus"]) == ("error", "research", 12)
        assert "changed=0" in run(folder, *wanted)
        changed = report_samples.ill()
        changed["totals"]["proven"] = 7
        (folder / "found.json").write_text(json.dumps(changed))
        assert "changed=1" in run(folder, *wanted)
    assert len(json.loads((folder / "gpulab-report.json").read_text())["history"]) == 3


def test_nothing_is_stored_in_the_cluster_by_default(folder: Path, cluster: FakeCluster) -> None:
    with cluster.serve(folder) as kubeconfig:
        assert "changed=0" in run(folder, "-e", f"cluster_api_kubeconfig={kubeconfig}")
    assert cluster.objects == {}


def test_awx_job_writes_the_configmap_unless_the_inventory_disables_it(folder: Path, cluster: FakeCluster) -> None:
    with cluster.serve(folder) as kubeconfig:
        job = ("-e", f"cluster_api_kubeconfig={kubeconfig}", "-e", "awx_job_template_name=verify")
        assert "changed=1" in run(folder, *job)
        assert STORED in cluster.objects
        cluster.objects.clear()
        (folder / "research.ini").write_text(f"{INVENTORY}[all:vars]\nacceptance_report_configmap=false\n")
        assert "changed=0" in run(folder, *job)
    assert cluster.objects == {}


def test_second_report_of_a_run_replaces_the_first(folder: Path, cluster: FakeCluster) -> None:
    again = "    - name: Write\n" + PLAY.partition("    - name: Write\n")[2].replace("found.json", "later.json")
    (folder / "play.yml").write_text(PLAY + again)
    (folder / "later.json").write_text(json.dumps(report_samples.well()))
    metrics = folder / "gpulab.prom"
    with cluster.serve(folder) as kubeconfig:
        wanted = ("-e", f"cluster_api_kubeconfig={kubeconfig}", "-e", "report_configmap=true")
        run(folder, *wanted, "-e", f"report_metrics={metrics}")
    written = json.loads((folder / "gpulab-report.json").read_text())
    stored = json.loads(cluster.objects[STORED]["data"]["report.json"])
    assert written["totals"]["gpus"] == stored["totals"]["gpus"] == 6
    assert 'gpulab_gpus_expected{cluster="research"} 6\n' in metrics.read_text()
    assert len(written["history"]) == 2


def test_report_is_not_written_into_an_inventory_directory(folder: Path) -> None:
    (folder / "site").mkdir()
    (folder / "research.ini").rename(folder / "site" / "hosts.ini")
    status, said = run_ansible(folder, "play.yml", "-i", "site", "-e", "cluster_api_kubeconfig=''")
    assert status == 0, said
    assert [each.name for each in (folder / "site").iterdir()] == ["hosts.ini"]
    assert (folder / "site-gpulab-report.html").exists()
