# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of an upgrade, and the way back, with modules that only say what they were asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
OLD, NEW = "580.178.04", "595.91.07"
STUBBED = [
    *("apt_packages", "apt_source", "gpu_acceptance", "gpu_host_info", "gpu_pods_info", "kubeadm_certs_info"),
    *("managed_files", "managed_service", "node_maintenance", "nvidia_cdi_spec", "nvidia_dkms_info"),
    *("nvidia_driver_module", "nvidia_driver_users_info", "nvidia_smi_info", "wait_for_rollout"),
]
# Answers are chosen by the module and, if there is one, by a word that is among its arguments; the first one counts.
STUB = """#!/usr/bin/python
# WANT_JSON
import json, sys
name, place = {name!r}, {place!r}
args = {{k: v for k, v in json.load(open(sys.argv[1])).items() if not k.startswith("_ansible")}}
text = json.dumps(args)
with open(place + "/calls", "a") as calls:
    calls.write(name + " " + text + "\\n")
answers = json.load(open(place + "/answers.json"))
for entry in answers:
    if entry["module"] == name and entry.get("word", "") in text:
        print(json.dumps(entry["result"]))
        break
else:
    print(json.dumps({{"changed": False}}))
"""
PLAYBOOK = """
- name: Upgrade
  hosts: gpu1
  gather_facts: false
  vars:
    __nvidia_driver_upgrading: true
  tasks:
    - name: Upgrade
      ansible.builtin.import_role:
        name: gpulab.kubernetes.nvidia_driver
        tasks_from: upgrade
"""
HOST = {
    "os": {"key": "Debian 13", "repository_name": "debian13"},
    "gpus": [{"address": "0000:3b:00.0", "device_id": "0x1eb8"}],
    "nvswitches": 0,
    "installed": {},
    "nvidia_driver": {"loaded_version": OLD, "packages": {"nvidia-open-580": f"{OLD}-1"}, "origin": "cuda_repository"},
}
NODE: dict[str, Any] = {
    "metadata": {"name": "gpu1", "annotations": {}},
    "status": {"allocatable": {"nvidia.com/gpu": "1"}},
}
PLUGIN = {"metadata": {"name": "nvidia-device-plugin"}}


class Site:
    """This repository as a collection, with stubs in the place of the modules that would do something."""

    def __init__(self, place: Path) -> None:
        self.place = place
        root = place / "collections/ansible_collections"
        own = root / "gpulab/kubernetes"
        (own / "plugins/modules").mkdir(parents=True)
        for name in ("roles", "meta", "galaxy.yml", "playbooks"):
            (own / name).symlink_to(REPOSITORY / name)
        for entry in (REPOSITORY / "plugins").iterdir():
            if entry.name != "modules":
                (own / "plugins" / entry.name).symlink_to(entry)
        for name in STUBBED:
            self._stub(own / f"plugins/modules/{name}.py", name)
        core = root / "kubernetes/core/plugins/modules"
        core.mkdir(parents=True)
        self._stub(core / "k8s_info.py", "k8s_info")
        (root / "kubernetes/core/galaxy.yml").write_text("namespace: kubernetes\nname: core\nversion: 9.9.9\n")
        self.answers: list[dict[str, Any]] = []

    def _stub(self, path: Path, name: str) -> None:
        path.write_text(STUB.format(name=name, place=str(self.place)))

    def answer(self, module: str, result: dict[str, Any], word: str = "") -> None:
        """What is told last is asked first."""
        self.answers.insert(0, {"module": module, "word": word, "result": result})

    def run(self, version: str = NEW, host: dict[str, Any] | None = None, **more: Any) -> tuple[int, str, list[str]]:
        """Exit status, output, and the calls as ``module`` or ``module state``, readers left out."""
        (self.place / "calls").unlink(missing_ok=True)
        (self.place / "answers.json").write_text(json.dumps(self.answers))
        (self.place / "site.yml").write_text(PLAYBOOK)
        here = "ansible_connection=local ansible_python_interpreter={{ansible_playbook_python}}"
        (self.place / "hosts.ini").write_text(f"[workers]\ngpu1 {here}\n[control_plane]\ncp1 {here}\n")
        settings = {
            "preflight_host": host or HOST,
            "kubeadm_kubeconfig": "/nowhere",
            "cluster_node_name": "gpu1",
            "ansible_facts": {"kernel": "6.12.0", "nodename": "gpu1", "default_ipv4": {"address": "192.0.2.1"}},
            "nvidia_driver_version": version,
            **more,
        }
        (self.place / "settings.json").write_text(json.dumps(settings))
        environ = {
            **os.environ,
            "ANSIBLE_CONFIG": str(self.place / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.place / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.place / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.place / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
        }
        (self.place / "ansible.cfg").write_text("[defaults]\n")
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.ini", "site.yml"]
        done = subprocess.run(
            [*command, "-e", "@settings.json"],
            cwd=self.place,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        return done.returncode, done.stdout + done.stderr, self._calls()

    def _calls(self) -> list[str]:
        path = self.place / "calls"
        told = []
        for line in path.read_text().splitlines() if path.exists() else []:
            name, _, text = line.partition(" ")
            args = json.loads(text)
            if not name.endswith("_info") and name not in ("apt_source", "managed_files"):
                told.append(
                    f"{name} {args.get('version') or args.get('driver_version') or args.get('state') or ''}".strip()
                )
        return told

    def asked(self, module: str) -> list[dict[str, Any]]:
        """The arguments of each call of a module."""
        lines = (self.place / "calls").read_text().splitlines()
        return [json.loads(line.partition(" ")[2]) for line in lines if line.partition(" ")[0] == module]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    made.answer("k8s_info", {"changed": False, "resources": [NODE]}, '"Node"')
    made.answer("k8s_info", {"changed": False, "resources": [PLUGIN]}, "DaemonSet")
    made.answer("gpu_pods_info", {"changed": False, "pods": []})
    made.answer("gpu_host_info", {"changed": False, "pci": [{}], "packages": {}, "held": {}, "containerd_files": []})
    made.answer("nvidia_driver_users_info", {"changed": False, "users": [], "services": []})
    made.answer("nvidia_driver_module", {"changed": True, "reboot_required": False, "reason": ""})
    made.answer("nvidia_dkms_info", {"changed": False, "reason": [], "log": ""})
    made.answer("gpu_acceptance", {"changed": True, "problems": []})
    made.answer("node_maintenance", {"changed": True})
    answers(made, NEW)
    return made


def answers(site: Site, version: str) -> None:
    site.answer("nvidia_smi_info", {"changed": False, "state": "ok", "driver_version": version, "gpus": []})


EMPTY = ["node_maintenance begun", "nvidia_driver_module absent"]
PROVE = ["node_maintenance proving", "wait_for_rollout", "gpu_acceptance"]


def swap(version: str) -> list[str]:
    """The calls that bring a version: headers only where it was not loaded at first, a pinning package from 590 on."""
    packages = ["apt_packages"] * (3 if version == NEW else 1)
    return [*packages, f"nvidia_driver_module {version}"]


def test_one_node_from_the_first_to_the_last_step(site: Site) -> None:
    status, output, calls = site.run()
    assert status == 0, output
    assert calls == [*EMPTY, *swap(NEW), f"nvidia_cdi_spec {NEW}", *PROVE, "node_maintenance ended"]
    begun = site.asked("node_maintenance")[0]
    assert begun["data"] == {"from": OLD, "services": [], "offered": "1"} or begun["data"]["from"] == OLD
    assert begun["drain"] is False and begun["leaving"] == ["nvidia-device-plugin/nvidia-device-plugin"]
    release = site.asked("apt_packages")[-1]
    assert release["packages"] == [{"name": "nvidia-open", "version": f"{NEW}-1"}]
    assert release["follow"] == {"version": f"{NEW}-1", "replaces": [f"{OLD}-1"]}
    assert release["allow_removal"] is True and release["allow_downgrade"] is True
    assert site.asked("wait_for_rollout")[0]["allocatable"] == {"gpu1": 1}


def test_nothing_is_done_where_nothing_differs(site: Site) -> None:
    status, output, calls = site.run(OLD)
    assert status == 0, output
    assert calls == []


@pytest.mark.parametrize("policy", ["refuse", "drain"])
def test_pods_with_gpus(site: Site, policy: str) -> None:
    pods = {"changed": False, "pods": [{"namespace": "research", "name": "train-0"}]}
    site.answer("gpu_pods_info", pods)
    status, output, calls = site.run(cluster_disruption_policy=policy)
    assert status != 0
    assert "research/train-0" in output
    # The drain is said to be done, and the pod is still there: it must have come meanwhile.
    assert calls == (
        []
        if policy == "refuse"
        else ["node_maintenance begun", f"nvidia_driver_module {OLD}", "node_maintenance ended"]
    )


def test_a_process_of_nobody_is_named_and_not_stopped(site: Site) -> None:
    users = [
        {"pid": 7, "name": "python3", "unit": "jupyter.service", "pod": "", "devices": []},
        {"pid": 8, "name": "nvidia-persiste", "unit": "nvidia-persistenced.service", "pod": "", "devices": []},
    ]
    site.answer("nvidia_driver_users_info", {"changed": False, "users": users, "services": []})
    status, output, calls = site.run()
    assert status != 0 and calls == []
    assert "python3 7 jupyter.service" in output and "nvidia-persiste 8" not in output


def test_a_drain_that_fails_leaves_everything_as_it_was(site: Site) -> None:
    site.answer("node_maintenance", {"failed": True, "msg": "Error while draining node gpu1: a budget"}, '"begun"')
    status, output, calls = site.run(cluster_disruption_policy="drain")
    assert status != 0 and "a budget" in output
    assert calls == ["node_maintenance begun", f"nvidia_driver_module {OLD}", "node_maintenance ended"]


def test_a_driver_in_use_is_left_alone(site: Site) -> None:
    busy = {"changed": False, "reboot_required": True, "reason": "driver 580 is in use: Module nvidia is in use"}
    site.answer("nvidia_driver_module", busy, '"absent"')
    status, output, calls = site.run()
    assert status != 0 and "Module nvidia is in use" in output and "nvidia_driver_reboot=true" in output
    assert "apt_packages" not in calls
    assert calls[-2:] == [f"nvidia_driver_module {OLD}", "node_maintenance ended"]


def test_a_version_that_fails_goes_back_and_the_node_stays_cordoned(site: Site) -> None:
    site.answer("nvidia_driver_module", {"failed": True, "msg": "Error while loading: Invalid argument"}, NEW)
    site.answer("nvidia_dkms_info", {"changed": False, "reason": ["nv.c:1: error: no"], "log": "/x/make.log"}, NEW)
    answers(site, OLD)
    status, output, calls = site.run()
    assert status != 0
    for word in ("Invalid argument", "nv.c:1: error: no", "/x/make.log", f"version {OLD} is back", "stays cordoned"):
        assert word in output, word
    assert calls == [*EMPTY, *swap(NEW), *EMPTY, *swap(OLD), f"nvidia_cdi_spec {OLD}", "node_maintenance failed"]
    failed = site.asked("node_maintenance")[-1]
    assert "Invalid argument" in failed["failure"]
    back = site.asked("apt_packages")[-1]
    assert back["packages"] == [{"name": "nvidia-open-580", "version": f"{OLD}-1"}]
    assert back["follow"]["replaces"] == [f"{NEW}-1"]


def test_a_proof_that_fails_goes_back_too(site: Site) -> None:
    site.answer("gpu_acceptance", {"changed": True, "problems": ["gpu1: GPU-1: unknown error"]})
    status, output, calls = site.run()
    assert status != 0 and "GPU-1: unknown error" in output
    assert calls[:11] == [*EMPTY, *swap(NEW), f"nvidia_cdi_spec {NEW}", *PROVE, "node_maintenance begun"]
    assert f"nvidia_driver_module {OLD}" in calls and calls[-1] == "node_maintenance failed"
    # nvidia-smi still says the new version here.
    assert "could not be brought back" in output and f"nvidia-smi says that {NEW}" in output


def node_with(record: dict[str, Any]) -> dict[str, Any]:
    annotations = {"gpulab.io/driver-upgrade": json.dumps(record)}
    return {"changed": False, "resources": [{**NODE, "metadata": {"name": "gpu1", "annotations": annotations}}]}


def test_a_run_goes_on_where_another_was_interrupted(site: Site) -> None:
    record = {"cordoned": False, "labels": {}, "data": {"from": OLD, "services": [], "offered": "1"}, "failure": ""}
    site.answer("k8s_info", node_with(record), '"Node"')
    loaded = {"loaded_version": NEW, "packages": {"nvidia-open": f"{NEW}-1"}, "origin": "cuda_repository"}
    status, output, calls = site.run(host={**HOST, "nvidia_driver": loaded})
    assert status == 0, output
    assert calls == [*swap(NEW)[1:], f"nvidia_cdi_spec {NEW}", *PROVE, "node_maintenance ended"]
    gone = {"loaded_version": "", "packages": {"nvidia-open": f"{NEW}-1", "libnvidia-ml1": f"{OLD}-1"}, "origin": "x"}
    status, output, calls = site.run(host={**HOST, "nvidia_driver": gone})
    assert status == 0, output
    assert calls == [*EMPTY, *swap(NEW), f"nvidia_cdi_spec {NEW}", *PROVE, "node_maintenance ended"]
    assert site.asked("node_maintenance")[0]["data"]["from"] == OLD


def test_a_drain_of_a_second_run_that_fails_does_not_give_a_half_changed_node_back(site: Site) -> None:
    record = {"cordoned": False, "labels": {}, "data": {"from": OLD}, "failure": ""}
    site.answer("k8s_info", node_with(record), '"Node"')
    site.answer("node_maintenance", {"failed": True, "msg": "Error while draining node gpu1: a budget"}, '"begun"')
    status, output, calls = site.run()
    assert status != 0 and "a budget" in output
    assert calls[-1] == "node_maintenance failed"


def test_a_driver_of_another_is_refused(site: Site) -> None:
    status, output, calls = site.run(nvidia_driver_source="preinstalled")
    assert status != 0 and "another's" in output and calls == []


@pytest.mark.parametrize(
    ("system", "packages"),
    [
        ("Debian 13", ["nvidia-open-kernel-dkms", "libcuda1", "nvidia-smi"]),
        ("Ubuntu 24.04", ["nvidia-headless-550-server-open", "nvidia-utils-550-server"]),
    ],
)
def test_the_distribution_s_packages(site: Site, system: str, packages: list[str]) -> None:
    answers(site, "550.163.01")
    other = {"loaded_version": "550.1", "packages": {}, "origin": "distribution"}
    host = {**HOST, "os": {"key": system, "repository_name": "x"}, "nvidia_driver": other}
    status, output, calls = site.run("550.163.01", host=host, nvidia_driver_source="distribution")
    assert status == 0, output
    release = site.asked("apt_packages")[-1]
    assert release["packages"] == [{"name": name, "version": "550.163.01-*"} for name in packages]
    assert "follow" not in release or release["follow"] is None
    assert site.asked("apt_source") == [] and calls[-1] == "node_maintenance ended"
