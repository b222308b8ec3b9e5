# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Order of the steps that share GPUs with the GPU Operator, with stubbed modules that record their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stubbed_site import Site

PLAYBOOK = """
- name: Share
  hosts: gpu1
  gather_facts: false
  module_defaults:
    group/gpulab.kubernetes.api:
      kubeconfig: "{{ cluster_api_kubeconfig }}"
  tasks:
    - name: Share
      ansible.builtin.import_role:
        name: gpulab.kubernetes.gpu_operator
"""
SMALL = "nvidia.com/mig-1g.5gb"
SHARING = {"mode": "mig", "layout": ["1g.5gb", "1g.5gb"]}
PART = {"index": 0, "uuid": "GPU-0", "name": "A100", "profiles": ["1g.5gb", "1g.5gb"], "create": "19:0,19:1"}
PAUSE = [
    f"nvidia.com/gpu.deploy.{name}" for name in ("device-plugin", "gpu-feature-discovery", "dcgm", "dcgm-exporter")
]


REMOVAL = PLAYBOOK + "        tasks_from: absent\n"


class Shared(Site):  # type: ignore[misc]
    """Site that runs the role on one host with one GPU."""

    def run(self, playbook: str = PLAYBOOK, **more: Any) -> tuple[int, str, list[str]]:
        """Return the exit status, the output, and the calls of modules."""
        settings = {
            "preflight_host": {"os": {"key": "Debian 13"}, "gpus": [{"address": "0000:3b:00.0"}]},
            "cluster_api_kubeconfig": "/nowhere",
            "cluster_node_name": "gpu1",
            "cluster_gpu_manager": "gpu_operator",
            "ansible_become": False,
            "gpu_operator_chart_path": "/chart",
            # Only one of the inventory's two hosts is in the play.
            "cluster_hosts": ["gpu1"],
            **more,
        }
        return *self.play(playbook, settings), self.calls()


@pytest.fixture
def site(tmp_path: Path) -> Shared:
    made = Shared(tmp_path)
    found = {
        "changed": False,
        "pci": [{"device_id": "0x20b0"}],
        "packages": {"nvidia-container-toolkit": {"version": "1", "held": True}},
        "held": {},
    }
    made.answer("gpu_host_info", {**found, "containerd_files": [], "certificates": {}})
    made.answer("nvidia_smi_info", {"changed": False, "state": "ok", "driver_version": "580.178.04", "gpus": []})
    made.answer("gpu_plugins_info", {"changed": False, "plugins": [], "policies": []})
    made.answer("helm_program_info", {"changed": False, "path": "/usr/bin/helm"})
    made.answer("helm_chart_info", {"changed": False, "problems": [], "objects": []})
    made.answer("gpu_pods_info", {"changed": False, "pods": []})
    made.answer("nvidia_mig", {"changed": False, "differs": False, "gpus": [{**PART, "profiles": []}]})
    return made


def test_gpus_shared_as_declared_are_not_partitioned_again(site: Shared) -> None:
    status, output, calls = site.run()
    assert status == 0, output
    assert calls == ["nvidia_mig", "k8s absent", "cluster_objects", "helm", "wait_for_rollout"]
    [waited] = site.asked("wait_for_rollout")
    assert waited["cluster_policy"] == "cluster-policy" and waited["namespace"] == "gpu-operator"
    assert waited["allocatable"] == {"gpu1": {"nvidia.com/gpu": 1}} and waited["tolerate_unhealthy"]
    modules = ("gpu_plugins_info", "k8s", "cluster_objects", "helm", "wait_for_rollout")
    asked = [each for module in modules for each in site.asked(module)]
    assert {each["kubeconfig"] for each in asked} == {"/nowhere"}
    assert not int(waited["settle"])
    # Secrets of interrupted installations and removals are deleted, because they would block Helm.
    (selectors,) = (each["label_selectors"] for each in site.asked("k8s") if each.get("kind") == "Secret")
    assert "status in (pending-install,pending-upgrade,pending-rollback,uninstalling)" in selectors


def test_run_ends_if_a_dra_driver_offers_the_gpus(site: Shared) -> None:
    problem = {"kind": "k", "what": "offered twice", "where": "w", "why": "y", "do": "d", "host": ""}
    site.answer("gpu_plugins_info", {"changed": False, "plugins": [], "policies": [], "problems": [problem]})
    status, output, calls = site.run()
    assert status != 0 and "offered twice" in output and "helm" not in calls


def policy(version: str) -> dict[str, Any]:
    driver = {"enabled": True, "version": version}
    return {"kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": {"driver": driver}}


def test_driver_change_by_the_operator_is_subject_to_the_disruption_policy(site: Shared) -> None:
    there = {"changed": False, "plugins": [], "policies": ["cluster-policy"]}
    site.answer("gpu_plugins_info", {**there, "driver_policies": {"cluster-policy": policy("580.1")["spec"]}})
    site.answer("gpu_pods_info", {"changed": False, "pods": [{"namespace": "a", "name": "trains", "empty_dirs": []}]})
    site.answer("helm_chart_info", {"changed": False, "problems": [], "objects": [policy("595.1")]})
    status, output, calls = site.run()
    assert status != 0 and "a/trains" in output and "GPU Operator's driver (driver.version)" in output
    assert "helm" not in calls
    site.answer("helm_chart_info", {"changed": False, "problems": [], "objects": [policy("580.1")]})
    assert site.run()[0] == 0


def test_resource_definitions_are_updated_before_a_first_installation(site: Shared) -> None:
    definition = {"kind": "CustomResourceDefinition", "metadata": {"name": "clusterpolicies.nvidia.com"}}
    site.answer("helm_chart_info", {"changed": False, "problems": [], "objects": [definition]})
    status, output, calls = site.run()
    assert status == 0, output
    assert calls == ["nvidia_mig", "k8s absent", "cluster_objects", "helm", "wait_for_rollout"]
    [applied] = site.asked("cluster_objects")
    assert applied["definitions"][0]["metadata"]["name"] == "gpu-operator" and applied["definitions"][1:] == [
        definition
    ]


def test_run_ends_if_the_chart_does_not_use_a_value(site: Shared) -> None:
    problem = {"kind": "k", "what": "it does not read x", "where": "w", "why": "y", "do": "d", "host": ""}
    site.answer("helm_chart_info", {"changed": False, "problems": [problem], "objects": []})
    status, output, calls = site.run()
    assert status != 0 and "it does not read x" in output and "helm" not in calls


def test_partial_run_does_not_change_the_operator(site: Shared) -> None:
    status, output, calls = site.run(cluster_hosts=["gpu1", "gpu2"])
    assert status != 0 and "this run leaves out gpu2" in output and "helm" not in calls
    own = {"namespace": "gpu-operator", "name": "p", "kind": "DaemonSet", "policy": "cluster-policy", "nodes": []}
    site.answer("gpu_plugins_info", {"changed": False, "plugins": [own], "policies": []})
    status, output, calls = site.run(cluster_hosts=["gpu1", "gpu2"])
    assert status == 0, output
    assert "helm" not in calls and site.asked("wait_for_rollout")[-1]["nodes"] == ["gpu1"]


def test_operator_is_removed_without_hooks_before_its_cluster_policy(site: Shared) -> None:
    found = {"plugins": [], "policies": ["cluster-policy"]}
    site.answer("gpu_plugins_info", {"changed": False, **found})
    status, output, calls = site.run(REMOVAL)
    assert status == 0, output
    assert calls == ["helm", *["k8s absent"] * 3]
    assert site.asked("helm")[0]["disable_hook"]
    removed = site.asked("k8s")
    assert [each["kind"] for each in removed] == ["Deployment", "ClusterPolicy", "Namespace"]
    assert all(each["delete_options"] == {"propagationPolicy": "Foreground"} and each["wait"] for each in removed[:2])


def test_operator_pods_stop_before_partitioning_and_return_after_the_chart(site: Shared) -> None:
    site.answer("nvidia_mig", {"changed": True, "differs": True, "gpus": [PART]})
    status, output, calls = site.run(cluster_gpu_sharing=SHARING)
    assert status == 0, output
    assert calls == [
        "nvidia_mig",
        *("gpu_sharing changing", "gpu_sharing changing", "nvidia_mig", "managed_service", "nvidia_cdi_spec"),
        *("k8s absent", "cluster_objects", "helm", "gpu_sharing", "wait_for_rollout"),
    ]
    begun, left = (asked for asked in site.asked("gpu_sharing") if asked.get("state") == "changing")
    assert begun["pause"] == left["pause"] == PAUSE
    assert "gpu-operator/nvidia-device-plugin-daemonset" in left["leaving"]
    values = site.asked("helm")[0]["release_values"]
    assert values["mig"] == {"strategy": "mixed"}
    assert set(values["devicePlugin"]["config"]["data"]) == {"exclusive", "mig-mixed"}
    assert site.asked("wait_for_rollout")[0]["allocatable"] == {"gpu1": {SMALL: 2}}
