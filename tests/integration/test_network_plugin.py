"""A cluster with an unmanaged pod network: site.yml waits, names what is missing, and later completes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hosts import ROOT, Inventory
from support.lab import Lab, running
from support.play import play

EXTERNAL = ("-e", "cluster_network_plugin=external")
# flannel's manifests in a namespace that is unknown to this collection, like another network plugin.
MANIFESTS = f"""
- name: Write the manifests of a network plugin
  hosts: control_plane
  become: true
  tasks:
    - name: Load the settings that several roles share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cluster
    - name: Load the manifests
      ansible.builtin.import_role:
        name: gpulab.kubernetes.flannel
        tasks_from: settings

    - name: Write the manifests
      ansible.builtin.copy:
        content: "{{{{ flannel_definitions | map('to_json') | join('\\n---\\n') }}}}"
        dest: /root/network.yml
        mode: "0600"
      vars:
        role_path: {ROOT}/roles/flannel
        _flannel_namespace: own-network
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running("network-plugin", ROOT / "tests" / "integration" / "specs" / "one-worker.yml") as started:
        yield started


def test_nodes_without_a_pod_network_are_named(lab: Lab) -> None:
    run = play(lab.path, *EXTERNAL, "-e", "kubeadm_timeout=120")
    assert run.status != 0
    for words in ("gpu1: the node is not ready", "cluster_network_plugin is external", "10.244.0.0/16"):
        assert words in run.output


def test_a_run_after_the_plugin_is_installed_completes_the_cluster(lab: Lab, tmp_path: Path) -> None:
    manifests = tmp_path / "manifests.yml"
    manifests.write_text(MANIFESTS)
    play(lab.path, playbook=str(manifests)).expect_success()
    control_plane = Inventory.read(lab.path).control_plane
    control_plane.run("kubectl --kubeconfig /etc/kubernetes/admin.conf apply --filename /root/network.yml")
    play(lab.path, *EXTERNAL).expect_success()
    assert "kube-flannel" not in control_plane.run("kubectl --kubeconfig /etc/kubernetes/admin.conf get namespaces")
    play(lab.path, *EXTERNAL).expect_unchanged()
