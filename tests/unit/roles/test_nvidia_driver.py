# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installation of a driver with packages or by a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stubbed_site import Site
from test_nvidia_driver_upgrade import HOST, NEW, OLD

PLAYBOOK = """
- name: Install
  hosts: gpu1
  gather_facts: false
  module_defaults:
    group/gpulab.kubernetes.api:
      kubeconfig: "{{ cluster_api_kubeconfig }}"
  tasks:
    - name: Install
      ansible.builtin.include_role:
        name: gpulab.kubernetes.nvidia_driver
    - name: Install by pods
      ansible.builtin.include_role:
        name: gpulab.kubernetes.nvidia_driver_installer
"""
BARE = {"loaded_version": "", "packages": {}, "origin": "none"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    made.answer("k8s_info", {"changed": False, "resources": []})
    made.answer("gpu_pods_info", {"changed": False, "pods": []})
    made.answer("nvidia_kernel_module", {"changed": True, "reboot_required": False, "reason": ""})
    made.answer("nvidia_smi_info", {"changed": False, "state": "ok", "driver_version": NEW, "gpus": []})
    return made


def install(site: Site, driver: dict[str, Any], **more: Any) -> tuple[int, str, list[str]]:
    settings = {
        "preflight_host": {**HOST, "nvidia_driver": driver},
        "cluster_api_kubeconfig": "/nowhere",
        "cluster_node_name": "gpu1",
        "ansible_facts": {"kernel": "6.12.0", "nodename": "gpu1", "default_ipv4": {"address": "192.0.2.1"}},
        "nvidia_driver_version": NEW,
        **more,
    }
    return *site.play(PLAYBOOK, settings), site.calls()


def test_driver_of_a_bare_host_is_installed_from_packages(site: Site) -> None:
    status, output, calls = install(site, BARE)
    assert status == 0, output
    assert calls == [*["apt_packages"] * 3, f"nvidia_kernel_module {NEW}", "managed_service"]
    assert site.asked("apt_packages")[-1]["allow_removal"] is False


def test_version_missing_from_the_repository_is_refused(site: Site) -> None:
    status, output, calls = install(site, BARE, nvidia_driver_version="570.1.02")
    assert status != 0 and "not in NVIDIA's repository for Debian 12" in output and calls == []


def test_replacing_a_loaded_driver_is_subject_to_the_disruption_policy(site: Site) -> None:
    site.answer(
        "gpu_pods_info", {"changed": False, "pods": [{"namespace": "team", "name": "train-0", "empty_dirs": []}]}
    )
    for source in ("cuda_repository", "daemonset"):
        loaded = {"loaded_version": OLD, "packages": {}, "origin": "cuda_repository"}
        status, output, calls = install(site, loaded, nvidia_driver_source=source)
        # An earlier run may have left the node cordoned.
        assert status != 0 and "team/train-0" in output and calls == ["node_maintenance ended"], source


def test_daemonset_installs_the_driver_on_request(site: Site) -> None:
    more = {"nvidia_driver_source": "daemonset", "nvidia_driver_installer_image": "r/driver:1"}
    status, output, calls = install(site, BARE, **more)
    assert status == 0, output
    name = f"driver-{NEW.replace('.', '-')}"
    namespace, daemonset = site.asked("cluster_objects")[0]["definitions"]
    assert namespace["metadata"]["name"] == "gpulab-driver" and daemonset["metadata"]["name"] == name
    assert site.asked("wait_for_rollout")[0]["nodes"] == ["gpu1"]
    assert [call.split()[0] for call in calls] == ["cluster_objects", "wait_for_rollout", "nvidia_cdi_spec"]


@pytest.mark.parametrize(("given", "state"), [("administrators", "absent"), ("all", "present")])
def test_performance_counters_are_restricted_to_administrators_by_default(site: Site, given: str, state: str) -> None:
    for more in ({"nvidia_driver_profiling": given}, *([{}] if state == "absent" else [])):
        status, output, _calls = install(site, BARE, **more)
        assert status == 0, output
        files = {file["path"]: file for file in site.asked("managed_files")[-1]["files"]}
        found = files["/etc/modprobe.d/gpulab-profiling.conf"]
        assert found["state"] == state
        assert "\noptions nvidia NVreg_RestrictProfilingToAdminUsers=0\n" in found["content"]


def test_pending_setting_of_performance_counters_is_reported(site: Site) -> None:
    loaded = {"loaded_version": NEW, "profiling": "administrators", "packages": {}, "origin": "cuda_repository"}
    _status, output, _calls = install(site, loaded, nvidia_driver_profiling="all")
    assert "nvidia_driver_profiling=all has effect when the driver is loaded the next time" in " ".join(output.split())
