# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Order of the steps of an upgrade and of a rollback, with stubbed modules that record their arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stubbed_site import Site

OLD, NEW = "580.178.04", "595.91.07"
BEGAN = "2026-11-22T05:06:25Z"
PLAYBOOK = """
- name: Upgrade
  hosts: gpu1
  gather_facts: false
  vars:
    nvidia_driver_upgrading: true
  module_defaults:
    group/gpulab.kubernetes.api:
      kubeconfig: "{{ cluster_api_kubeconfig }}"
  tasks:
    - name: Upgrade
      ansible.builtin.import_role:
        name: gpulab.kubernetes.nvidia_driver_upgrade
"""
HOST: dict[str, Any] = {
    "os": {"key": "Debian 12", "repository_name": "debian12"},
    "gpus": [{"address": "0000:3b:00.0", "device_id": "0x1eb8"}],
    "nvswitches": 0,
    "installed": {},
    "kernel_packages": {
        "image": "",
        "meta": "linux-image-amd64",
        "headers": ["linux-headers-6.12.0", "linux-headers-amd64"],
        "compiler": "gcc-12",
        "newer_without_headers": [],
        "headers_found": False,
    },
    "nvidia_driver": {"loaded_version": OLD, "packages": {"nvidia-open-580": f"{OLD}-1"}, "origin": "cuda_repository"},
}
NODE: dict[str, Any] = {
    "metadata": {"name": "gpu1", "annotations": {}},
    "status": {"capacity": {"nvidia.com/gpu": "1"}},
}
PLUGIN = {"metadata": {"name": "nvidia-device-plugin"}}
HOST_INFO: dict[str, Any] = {
    "packages": {},
    "driver": {},
    "kernel": {},
    "swap": [],
    "held": {},
    "containerd_files": [],
    "certificates": {},
    "apt_keys": [],
}


class Upgrade(Site):  # type: ignore[misc]
    """Site that upgrades one node."""

    def run(
        self, version: str = NEW, host: dict[str, Any] | None = None, playbook: str = PLAYBOOK, **more: Any
    ) -> tuple[int, str, list[str]]:
        """Return the exit status, the output, and the calls of modules."""
        settings = {
            "preflight_host": host or HOST,
            "cluster_api_kubeconfig": "/nowhere",
            "cluster_node_name": "gpu1",
            "ansible_facts": {"kernel": "6.12.0", "nodename": "gpu1", "default_ipv4": {"address": "192.0.2.1"}},
            "nvidia_driver_version": version,
            **more,
        }
        return *self.play(playbook, settings), self.calls()


@pytest.fixture
def site(tmp_path: Path) -> Upgrade:
    made = Upgrade(tmp_path)
    made.answer("k8s_info", {"changed": False, "resources": [NODE]}, '"Node"')
    made.answer("k8s_info", {"changed": False, "resources": [PLUGIN]}, "DaemonSet")
    made.answer("gpu_pods_info", {"changed": False, "pods": []})
    made.answer("gpu_host_info", {"changed": False, "pci": [{}], "given_back": "", **HOST_INFO})
    made.answer("nvidia_driver_users_info", {"changed": False, "users": [], "services": []})
    made.answer("nvidia_kernel_module", {"changed": True, "reboot_required": False, "reason": "", "began": BEGAN})
    made.answer("nvidia_dkms_info", {"changed": False, "reason": [], "log": ""})
    made.answer("gpu_acceptance", {"changed": True, "problems": []})
    made.answer("node_maintenance", {"changed": True})
    answers(made, NEW)
    return made


def answers(site: Upgrade, version: str) -> None:
    site.answer("nvidia_smi_info", {"changed": False, "state": "ok", "driver_version": version, "gpus": []})


EMPTY = ["node_maintenance begun", "nvidia_kernel_module absent"]
PROVE = ["node_maintenance verifying", "wait_for_rollout", "gpu_acceptance"]


def swap(version: str) -> list[str]:
    """Return the calls that install a version; only the new one also needs headers and a pinning package."""
    packages = ["apt_packages"] * (3 if version == NEW else 1)
    return [*packages, f"nvidia_kernel_module {version}", "managed_service"]


def test_upgrade_of_a_node_runs_all_steps_in_order(site: Upgrade) -> None:
    status, output, calls = site.run()
    assert status == 0, output
    assert calls == [*EMPTY, *swap(NEW), f"nvidia_cdi_spec {NEW}", *PROVE, "node_maintenance ended"]
    begun = site.asked("node_maintenance")[0]
    assert begun["data"] == {
        "from": OLD,
        "package": {"name": "nvidia-open-580", "version": f"{OLD}-1"},
        "services": [],
        "offered": {"nvidia.com/gpu": "1"},
    }
    assert begun["drain"] is False and begun["leaving"][0] == "nvidia-device-plugin/nvidia-device-plugin"
    assert {"dcgm-exporter/dcgm-exporter", "gpu-operator/nvidia-dcgm-exporter"} <= set(begun["leaving"])
    headers, release = site.asked("apt_packages")[-2:]
    assert [each["name"] for each in headers["packages"]] == ["linux-headers-6.12.0", "linux-headers-amd64", "gcc-12"]
    assert headers["hold"] is False and all(each["optional"] for each in headers["packages"])
    assert release["packages"] == [
        {"name": "nvidia-driver-cuda", "version": f"{NEW}-1"},
        {"name": "nvidia-kernel-open-dkms", "version": f"{NEW}-1"},
        {"name": "nvidia-persistenced", "version": f"{NEW}-1", "optional": True},
    ]
    assert release["follow"] == {"version": f"{NEW}-1", "replaces": [f"{OLD}-1"]}
    assert release["allow_removal"] is True and release["allow_downgrade"] is True
    assert site.asked("wait_for_rollout")[0]["allocatable"] == {"gpu1": {"nvidia.com/gpu": "1"}}
    # Errors of the previous driver are ignored.
    assert [asked["nvidia_smi"]["xids_since"] for asked in site.asked("gpu_host_info")] == [BEGAN]


def test_kernel_without_headers_is_refused_before_dkms_fails(site: Upgrade) -> None:
    site.answer("apt_packages", {"changed": False, "missing": ["linux-headers-6.12.0"]}, "linux-headers")
    kernel = {**HOST["kernel_packages"], "image": "linux-image-6.12.0"}
    status, output, calls = site.run(host={**HOST, "kernel_packages": kernel})
    assert status != 0 and "no apt source of this host has linux-headers-6.12.0" in " ".join(output.split())
    assert f"nvidia_kernel_module {NEW}" not in calls
    # If the driver was rolled back, the node is marked as failed.
    assert f"was rolled back to {OLD}" not in output or calls[-1] == "node_maintenance failed"


def test_missing_persistence_daemon_is_not_a_failure(site: Upgrade) -> None:
    site.answer("managed_service", {"changed": False, "state": "not-found", "actions": [], "restart": False})
    status, output, _calls = site.run()
    assert status == 0 and "has brought nvidia-persistenced" in output
    assert [asked.get("optional") for asked in site.asked("managed_service")] == [True]


@pytest.mark.parametrize(
    ("old", "name"),
    [
        ("570.1.02", "nvidia-open-570"),
        ("570.1.02", "cuda-drivers-570"),
        ("590.1.02", "nvidia-open"),
        ("590.1.02", "nvidia-kernel-open-dkms"),
    ],
)
def test_version_that_is_not_in_the_table_can_be_rolled_back(site: Upgrade, old: str, name: str) -> None:
    site.answer("nvidia_kernel_module", {"failed": True, "msg": "Error while loading: Invalid argument"}, NEW)
    answers(site, old)
    packages = {"libnvidia-ml1": f"{old}-9", name: f"{old}-1ubuntu1"}
    driver = {"loaded_version": old, "packages": packages, "origin": "cuda_repository"}
    status, output, _calls = site.run(host={**HOST, "nvidia_driver": driver})
    assert status != 0 and f"The driver was rolled back to {old}" in output
    package = {"name": name, "version": f"{old}-1ubuntu1"}
    assert site.asked("node_maintenance")[0]["data"]["package"] == package
    # A compute-only driver is recognized by its kernel modules, and is rolled back completely.
    names = ["nvidia-driver-cuda", name] if "dkms" in name else [name]
    back = [each for each in site.asked("apt_packages")[-1]["packages"] if not each.get("optional")]
    assert back == [{"name": each, "version": f"{old}-1ubuntu1"} for each in names]


def test_errors_of_a_driver_that_was_not_reloaded_count(site: Upgrade) -> None:
    site.answer("nvidia_kernel_module", {"changed": False, "reboot_required": False, "reason": "", "began": BEGAN}, NEW)
    status, output, _calls = site.run()
    assert status == 0, output
    assert [asked["nvidia_smi"]["xids_since"] for asked in site.asked("gpu_host_info")] == [""]


def test_impossible_rollback_is_announced_before_any_change(site: Upgrade) -> None:
    driver = {"loaded_version": "570.1.02", "packages": {}, "origin": "runfile"}
    status, output, _calls = site.run(host={**HOST, "nvidia_driver": driver})
    assert status == 0, output
    told = " ".join(output.split())
    assert told.index("570.1.02 can't return") < told.index("Cordon the node")


def test_service_names_need_no_suffix(site: Upgrade) -> None:
    users = [{"pid": 7, "name": "jupyter", "unit": "jupyter.service", "pod": "", "devices": []}]
    site.answer("nvidia_driver_users_info", {"changed": False, "users": users, "services": []})
    status, output, _calls = site.run(nvidia_driver_services=["jupyter", "exporter.socket"])
    assert status == 0, output
    assert site.asked("nvidia_driver_users_info")[0]["services"][-2:] == ["jupyter.service", "exporter.socket"]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("debian12", "3bf863cc.pub"),
        ("debian13", "8793F200.pub"),
        ("ubuntu2204", "3bf863cc.pub"),
        ("ubuntu2404", "3bf863cc.pub"),
        ("ubuntu2604", "60DF8A40.pub"),
    ],
)
def test_each_distribution_has_its_own_signing_key(site: Upgrade, name: str, file: str) -> None:
    keys = {"debian": "Debian 12", "ubuntu": "Ubuntu 22.04"}
    system = {"key": keys[name.rstrip("0123456789")], "repository_name": name}
    status, output, _calls = site.run(host={**HOST, "os": system})
    assert status == 0, output
    base = "https://developer.download.nvidia.com/compute/cuda/repos"
    assert site.asked("apt_source")[0]["key_url"] == f"{base}/{name}/x86_64/{file}"


def test_node_with_the_requested_version_is_not_changed(site: Upgrade) -> None:
    status, output, calls = site.run(OLD)
    assert status == 0, output
    assert calls == []


@pytest.mark.parametrize("policy", ["refuse", "drain"])
def test_pods_with_gpus_are_named_and_end_the_upgrade(site: Upgrade, policy: str) -> None:
    pods = {"changed": False, "pods": [{"namespace": "research", "name": "train-0", "empty_dirs": []}]}
    site.answer("gpu_pods_info", pods)
    status, output, calls = site.run(cluster_disruption_policy=policy)
    assert status != 0
    assert "research/train-0" in output
    # The pod is still there after a successful drain, so it must have started in the meantime.
    assert calls == (
        []
        if policy == "refuse"
        else ["node_maintenance begun", f"nvidia_kernel_module {OLD}", "node_maintenance ended"]
    )


TRAIN = {"uid": "u1", "namespace": "research", "name": "train-0", "empty_dirs": []}
SHELL = {"pid": 7, "name": "python3", "unit": "", "pod": "", "devices": []}


@pytest.mark.parametrize(
    ("policy", "pods", "processes", "calls"),
    [
        ("defer", [TRAIN], [], ["node_maintenance ended"]),
        ("defer", [], [SHELL], ["node_maintenance ended"]),
        ("wait", [TRAIN], [], ["node_maintenance begun", "node_maintenance ended"]),
        ("wait", [], [SHELL], ["node_maintenance begun", "node_maintenance ended"]),
    ],
)
def test_node_in_use_is_left_for_a_later_run(
    site: Upgrade, policy: str, pods: list[dict[str, Any]], processes: list[dict[str, Any]], calls: list[str]
) -> None:
    site.answer("gpu_pods_info", {"pods": pods})
    site.answer("nvidia_driver_users_info", {"users": processes, "services": []})
    status, output, found = site.run(cluster_disruption_policy=policy, cluster_disruption_wait=1)
    assert status == 0, output
    assert found == calls
    (file,) = site.asked("managed_files")[-1]["files"]
    entry = json.loads(file["content"])["driver-upgrade"]
    assert entry["users"] == (["research/train-0"] if pods else ["python3 7"])
    assert entry["pending"] == f"the NVIDIA driver to {NEW}"
    # The run was ended during the wait.
    waiting = {"cordoned": False, "labels": {}, "data": {"from": OLD}, "failure": ""}
    site.answer("k8s_info", node_with(waiting), '"Node"')
    status, output, found = site.run(cluster_disruption_policy=policy, cluster_disruption_wait=1)
    assert (status, found) == (0, calls), output
    # After an interrupted upgrade, the node may have only half of a driver.
    record = {"cordoned": False, "labels": LEFT, "data": {"from": OLD}, "failure": ""}
    site.answer("k8s_info", node_with(record), '"Node"')
    status, output, found = site.run(cluster_disruption_policy=policy, cluster_disruption_wait=1)
    assert status != 0 and entry["users"][0] in output
    assert found[-1:] == ([] if policy == "defer" else ["node_maintenance failed"])


def test_node_that_becomes_free_in_time_is_upgraded(site: Upgrade) -> None:
    site.answer("gpu_pods_info", {"pods": [TRAIN]})
    site.answer("gpu_pods_info", {"pods": []}, '"timeout": 10')
    record = json.dumps({"driver-upgrade": {"since": BEGAN, "change": "x", "users": ["y"], "pending": "z"}})
    status, output, calls = site.run(cluster_disruption_policy="wait", host={**HOST, "deferred": record})
    assert status == 0, output
    assert calls == [*EMPTY, *swap(NEW), f"nvidia_cdi_spec {NEW}", *PROVE, "node_maintenance ended"]
    begun = site.asked("node_maintenance")[0]
    assert (begun["drain"], begun["grace"], begun["jobs"]) == (False, 1800, ["u1"])
    assert site.asked("managed_files")[-1]["files"] == [{"path": "/var/lib/gpulab/deferred.json", "state": "absent"}]


def test_wait_is_the_grace_period_of_signalled_pods(site: Upgrade) -> None:
    site.answer("gpu_pods_info", {"pods": [TRAIN]})
    site.answer("gpu_pods_info", {"pods": []}, '"timeout": 10')
    status, output, _calls = site.run(cluster_disruption_policy="signal", cluster_disruption_wait=300)
    assert status == 0, output
    begun = site.asked("node_maintenance")[0]
    assert (begun["drain"], begun["grace"], begun["jobs"]) == (True, 300, ["u1"])
    assert [each["grace"] for each in site.asked("node_maintenance")[1:]] == [0, 0]


def test_unknown_process_is_named_and_not_stopped(site: Upgrade) -> None:
    users = [
        {"pid": 7, "name": "python3", "unit": "jupyter.service", "pod": "", "devices": []},
        {"pid": 8, "name": "nvidia-persiste", "unit": "nvidia-persistenced.service", "pod": "", "devices": []},
    ]
    site.answer("nvidia_driver_users_info", {"changed": False, "users": users, "services": []})
    status, output, calls = site.run()
    assert status != 0 and calls == []
    assert "python3 7 jupyter.service" in output and "nvidia-persiste 8" not in output


def test_failed_drain_changes_nothing(site: Upgrade) -> None:
    site.answer("node_maintenance", {"failed": True, "msg": "Error while draining node gpu1: a budget"}, '"begun"')
    status, output, calls = site.run(cluster_disruption_policy="drain")
    assert status != 0 and "a budget" in output
    assert calls == ["node_maintenance begun", f"nvidia_kernel_module {OLD}", "node_maintenance ended"]


def test_driver_in_use_is_not_replaced(site: Upgrade) -> None:
    busy = {"changed": False, "reboot_required": True, "reason": "driver 580 is in use: Module nvidia is in use"}
    site.answer("nvidia_kernel_module", busy, '"absent"')
    status, output, calls = site.run()
    assert status != 0 and "Module nvidia is in use" in output
    # The role doesn't reboot the machine that Ansible runs on.
    assert "Reboot this host yourself and run again" in output
    assert "apt_packages" not in calls
    assert calls[-2:] == [f"nvidia_kernel_module {OLD}", "node_maintenance ended"]


def test_failing_driver_is_rolled_back_and_the_node_stays_cordoned(site: Upgrade) -> None:
    site.answer("nvidia_kernel_module", {"failed": True, "msg": "Error while loading: Invalid argument"}, NEW)
    site.answer("nvidia_dkms_info", {"changed": False, "reason": ["nv.c:1: error: no"], "log": "/x/make.log"}, NEW)
    answers(site, OLD)
    status, output, calls = site.run(cluster_disruption_policy="drain")
    assert status != 0
    for word in ("Invalid argument", "nv.c:1: error: no", "/x/make.log", f"was rolled back to {OLD}", "stays cordoned"):
        assert word in output, word
    begun = [*EMPTY, *swap(NEW)[:-1]]
    assert calls == [*begun, *EMPTY, *swap(OLD), f"nvidia_cdi_spec {OLD}", "node_maintenance failed"]
    failed = site.asked("node_maintenance")[-1]
    assert "Invalid argument" in failed["failure"]
    # The rollback doesn't drain the node again.
    assert [each["drain"] for each in site.asked("node_maintenance") if each["state"] == "begun"] == [True, False]
    back = site.asked("apt_packages")[-1]
    assert back["packages"] == [{"name": "nvidia-open-580", "version": f"{OLD}-1"}]
    assert back["follow"]["replaces"] == [f"{NEW}-1"]


def test_failed_build_of_a_distribution_driver_has_feasible_advice(site: Upgrade) -> None:
    site.answer("nvidia_kernel_module", {"failed": True, "msg": "Error while loading: not found"}, "550.163.01")
    error = "nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'"
    site.answer("nvidia_dkms_info", {"changed": False, "reason": [error], "log": "/x/make.log"}, "550.163.01")
    other = {"loaded_version": "", "packages": {}, "origin": "none"}
    host = {**HOST, "os": {"key": "Debian 13", "repository_name": "debian13"}, "nvidia_driver": other}
    status, output, _calls = site.run("550.163.01", host=host, nvidia_driver_source="distribution")
    told = " ".join(output.split())
    assert status != 0 and error in told and "(nvidia_driver_source=cuda_repository)" in told
    assert "Choose a version" not in told


def test_failed_verification_rolls_the_driver_back(site: Upgrade) -> None:
    site.answer("gpu_acceptance", {"changed": True, "problems": ["gpu1: GPU-1: unknown error"]})
    status, output, calls = site.run()
    assert status != 0 and "GPU-1: unknown error" in output
    assert calls[:12] == [*EMPTY, *swap(NEW), f"nvidia_cdi_spec {NEW}", *PROVE, "node_maintenance begun"]
    assert f"nvidia_kernel_module {OLD}" in calls and calls[-1] == "node_maintenance failed"
    # The stub of nvidia_smi_info still reports the new version.
    assert "could not be rolled back" in output and f"nvidia-smi reports {NEW}" in output


# The former labels of a node whose device plugin has left.
LEFT = {"gpulab.io/driver-upgrade": None}
UNVERIFIED = {"failed": True, "inconclusive": True, "msg": "Error while verifying the GPUs: the API did not answer"}


BROKEN_DNS = {"inconclusive": True, "problems": ["gpu1: a pod can't reach DNS name x: the API did not answer"]}


@pytest.mark.parametrize(
    ("module", "result", "calls_after"),
    [
        ("gpu_acceptance", UNVERIFIED, 3),
        ("gpu_acceptance", BROKEN_DNS, 3),
        ("gpu_acceptance", {"failed": True, "msg": "KeyError: the API did not answer as it should"}, 3),
        ("wait_for_rollout", UNVERIFIED, 2),
    ],
)
@pytest.mark.parametrize("silent", [False, True], ids=["the API is back", "the API stays away"])
def test_driver_is_kept_on_a_cordoned_node_if_it_cannot_be_verified(
    site: Upgrade, module: str, result: dict[str, Any], calls_after: int, silent: bool
) -> None:
    site.answer(module, result)
    if silent:
        site.answer("node_maintenance", {"failed": True, "msg": "Error while asking the API"}, '"failed"')
    status, output, calls = site.run()
    told = " ".join(output.split())
    assert status != 0 and "the API did not answer" in told and "so it was not rolled back" in told
    assert calls == [*EMPTY, *swap(NEW), f"nvidia_cdi_spec {NEW}", *PROVE[:calls_after], "node_maintenance failed"]
    assert "The node gpu1 stays cordoned" in told
    assert "the API did not answer" in site.asked("node_maintenance")[-1]["failure"]


def test_earlier_verification_does_not_prevent_a_rollback(site: Upgrade) -> None:
    site.answer("nvidia_kernel_module", {"failed": True, "msg": "Error while loading: Invalid argument"}, NEW)
    answers(site, OLD)
    playbook = PLAYBOOK.replace(
        "  tasks:\n",
        f"  tasks:\n    - ansible.builtin.set_fact: {{acceptance_node_result: {json.dumps(BROKEN_DNS)}}}\n",
    )
    status, output, _calls = site.run(playbook=playbook)
    assert status != 0 and f"The driver was rolled back to {OLD}" in output


def node_with(record: dict[str, Any]) -> dict[str, Any]:
    annotations = {"gpulab.io/driver-upgrade": json.dumps(record)}
    return {"changed": False, "resources": [{**NODE, "metadata": {"name": "gpu1", "annotations": annotations}}]}


def test_interrupted_upgrade_is_resumed(site: Upgrade) -> None:
    record = {
        "cordoned": False,
        "labels": {},
        # A service in the record that upgrades never stop must not be started.
        "data": {"from": OLD, "services": ["gpulab-unknown.service"], "offered": {"nvidia.com/gpu": "1"}},
        "failure": "",
    }
    site.answer("k8s_info", node_with(record), '"Node"')
    loaded = {"loaded_version": NEW, "packages": {"nvidia-open": f"{NEW}-1"}, "origin": "cuda_repository"}
    status, output, calls = site.run(host={**HOST, "nvidia_driver": loaded})
    assert status == 0, output
    assert "names gpulab-unknown.service, which is not in nvidia_driver_services" in " ".join(output.split())
    assert calls == [*swap(NEW)[1:], f"nvidia_cdi_spec {NEW}", *PROVE, "node_maintenance ended"]
    gone = {"loaded_version": "", "packages": {"nvidia-open": f"{NEW}-1", "libnvidia-ml1": f"{OLD}-1"}, "origin": "x"}
    status, output, calls = site.run(host={**HOST, "nvidia_driver": gone})
    assert status == 0, output
    assert calls == [*EMPTY, *swap(NEW), f"nvidia_cdi_spec {NEW}", *PROVE, "node_maintenance ended"]
    assert site.asked("node_maintenance")[0]["data"]["from"] == OLD


def test_failed_drain_of_a_resumed_upgrade_does_not_release_the_node(site: Upgrade) -> None:
    record = {"cordoned": False, "labels": LEFT, "data": {"from": OLD}, "failure": ""}
    site.answer("k8s_info", node_with(record), '"Node"')
    site.answer("node_maintenance", {"failed": True, "msg": "Error while draining node gpu1: a budget"}, '"begun"')
    status, output, calls = site.run()
    assert status != 0 and "a budget" in output
    assert calls[-1] == "node_maintenance failed"


def test_unmanaged_driver_is_refused(site: Upgrade) -> None:
    status, output, calls = site.run(nvidia_driver_source="preinstalled")
    assert status != 0 and "not managed by this collection" in output and calls == []


@pytest.mark.parametrize(
    ("system", "packages"),
    [
        ("Debian 13", ["nvidia-open-kernel-dkms", "libcuda1", "nvidia-smi"]),
        ("Ubuntu 24.04", ["nvidia-headless-550-server-open", "nvidia-utils-550-server"]),
    ],
)
def test_packages_of_the_distribution_are_installed(site: Upgrade, system: str, packages: list[str]) -> None:
    answers(site, "550.163.01")
    other = {"loaded_version": "550.1", "packages": {}, "origin": "distribution"}
    host = {**HOST, "os": {"key": system, "repository_name": "x"}, "nvidia_driver": other}
    status, output, calls = site.run("550.163.01", host=host, nvidia_driver_source="distribution")
    assert status == 0, output
    release = site.asked("apt_packages")[-1]
    assert release["packages"] == [{"name": name, "version": "550.163.01-*"} for name in packages]
    assert "follow" not in release or release["follow"] is None
    assert site.asked("apt_source") == [] and calls[-1] == "node_maintenance ended"
