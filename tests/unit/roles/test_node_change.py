# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draining and release of a node around a change, with stubbed modules that record their arguments."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from stubbed_site import Site

WORKERS = [f"gpu{number}" for number in range(1, 8)]
PLAYBOOK = """
- name: Interrupt
  hosts: gpu1
  gather_facts: false
  tasks:
    - name: Ask
      ansible.builtin.include_role:
        name: gpulab.kubernetes.node_change
        tasks_from: hold
      vars:
        node_change_reason: a restart
    - name: Check that it is known
      ansible.builtin.assert:
        that: node_change_drained
    - name: Go on
      ansible.builtin.include_role:
        name: gpulab.kubernetes.node_change
        tasks_from: release
    - name: Check that it is over
      ansible.builtin.assert:
        that: not node_change_drained
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    pod = {"namespace": "team", "name": "train", "empty_dirs": ["cache", "scratch"]}
    made.answer("gpu_pods_info", {"changed": False, "pods": [pod]})
    made.answer("node_maintenance", {"changed": True})
    return made


@pytest.mark.parametrize("of_the_play", [True, False], ids=["the play's", "its own"])
def test_kubeconfig_is_only_removed_by_the_role_that_fetched_it(site: Site, tmp_path: Path, of_the_play: bool) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    settings = {"cluster_node_name": "gpu1", "cluster_disruption_policy": "drain", "ansible_become": False}
    if of_the_play:
        kubeconfig.touch()
        settings["cluster_api_kubeconfig"] = str(kubeconfig)
    else:
        text = "clusters: [{cluster: {server: https://cp1}}]\nusers: [{user: {token: t}}]\n"
        file = {"content": base64.b64encode(text.encode()).decode()}
        settings |= {"__cluster_api_file": file, "_cluster_api_private_file": str(kubeconfig) + "{{ 999 | random }}"}
    status, output = site.play(PLAYBOOK, settings)
    assert status == 0, output
    assert "Draining gpu1 deletes what pods have in emptyDir volumes: team/train: cache, scratch" in output
    asked = site.asked("node_maintenance")
    # The name ends in a random number.
    used = [re.sub("[0-9]*$", "", each["kubeconfig"]) for each in asked]
    assert [(each["state"], each["drain"], path) for each, path in zip(asked, used, strict=True)] == [
        ("begun", True, str(kubeconfig)),
        ("ended", False, str(kubeconfig)),
    ]
    files = [file for each in site.asked("managed_files") for file in each["files"]]
    removed = [
        re.sub("kubeconfig[0-9]*", "kubeconfig", file["path"]) for file in files if file.get("state") == "absent"
    ]
    assert removed == ([] if of_the_play else [str(kubeconfig), f"{kubeconfig}.patience"] * 2)


HOLD = """
- name: Interrupt
  hosts: workers
  gather_facts: false
  tasks:
    - name: Ask
      ansible.builtin.include_role:
        name: gpulab.kubernetes.node_change
        tasks_from: hold
      vars:
        cluster_disruption_policy: "{{ policies[inventory_hostname] }}"
        node_change_may_defer: "{{ inventory_hostname != 'gpu6' }}"
        node_change_reason: a restart
    - name: Restart
      gpulab.kubernetes.managed_service:
        name: containerd
    - name: Go on
      ansible.builtin.include_role:
        name: gpulab.kubernetes.node_change
        tasks_from: release
      when: node_change_drained | default(false)

- name: Go on with all hosts
  hosts: workers
  gather_facts: false
  tasks:
    - name: Read the host
      gpulab.kubernetes.gpu_host_info:
"""
# The wait of gpu5 and gpu6 times out; gpu7 has no users.
POLICIES = dict(zip(WORKERS, ("drain", "signal", "wait", "defer", "wait", "wait", "signal"), strict=True))
EARLIER = {"since": "2026-11-01T10:00:00Z", "change": "a restart", "users": ["team/old"], "pending": "containerd: x"}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, Site]:
    site = Site(tmp_path_factory.mktemp("site"), WORKERS)
    pod = {"uid": "u1", "namespace": "team", "name": "train", "empty_dirs": []}
    site.answer("gpu_pods_info", {"pods": [pod]})
    site.answer("gpu_pods_info", {"pods": []}, '"timeout": 10', host="gpu3")
    site.answer("gpu_pods_info", {"pods": []}, host="gpu7")
    site.answer("node_maintenance", {"changed": True, "jobs": {"u1": "team/train (Job train)"}})
    settings = {
        "cluster_node_name": "{{ inventory_hostname }}",
        "cluster_api_kubeconfig": "/nowhere",
        "cluster_disruption_wait": "90",
        "ansible_become": False,
        "policies": POLICIES,
        "preflight_host": {"deferred": json.dumps({"disruption": EARLIER})},
        "plan_pending": {"containerd": ["configuration"]},
    }
    return *site.play(HOLD, settings), site


def by_host(site: Site, module: str) -> dict[str, list[dict[str, Any]]]:
    calls = [event for event in site.events() if event["event"] == "call" and event["module"] == module]
    return {name: [call["args"] for call in calls if call["host"] == name] for name in WORKERS}


def test_deferred_change_ends_the_play_for_its_host_only(held: tuple[int, str, Site]) -> None:
    _status, output, site = held
    changed = {name: bool(calls) for name, calls in by_host(site, "managed_service").items()}
    assert changed == {name: name not in ("gpu4", "gpu5", "gpu6") for name in WORKERS}, output
    # Only the host whose change can't be deferred is missing from the next play.
    read = {name for name, calls in by_host(site, "gpu_host_info").items() if calls}
    assert read == {*WORKERS} - {"gpu6"}
    assert "gpu6: it would interrupt what uses" not in output and "failed=1" in output


def test_each_policy_has_its_own_drain_and_grace_period(held: tuple[int, str, Site]) -> None:
    _status, _output, site = held
    asked = {
        name: [(call["state"], call["drain"], call["grace"], call["jobs"]) for call in calls]
        for name, calls in by_host(site, "node_maintenance").items()
    }
    waited = ("begun", False, 90.0, ["u1"])
    assert asked == {
        "gpu1": [("begun", True, 0, ["u1"]), ("ended", False, 0, [])],
        "gpu2": [("begun", True, 90.0, ["u1"]), ("ended", False, 0, [])],
        "gpu3": [waited, ("ended", False, 0, [])],
        "gpu4": [("ended", False, 0, ["u1"])],
        "gpu5": [waited, ("ended", False, 0, ["u1"])],
        "gpu6": [waited, ("ended", False, 0, [])],
        "gpu7": [],
    }


def test_several_changes_of_a_node_wait_together_no_longer_than_one(site: Site) -> None:
    """gpu1 waits for a pod, another starts when the first change is made, and the second change waits for it."""
    site.answer("gpu_pods_info", {"changed": False, "pods": []}, '"timeout": 10')
    settings = {
        "cluster_node_name": "gpu1",
        "cluster_api_kubeconfig": "/nowhere",
        "cluster_disruption_policy": "wait",
        "cluster_disruption_wait": 90,
        "ansible_become": False,
    }
    status, output = site.play(PLAYBOOK + PLAYBOOK, settings)
    assert status == 0, output
    begun = [each["grace"] for each in site.asked("node_maintenance") if each["state"] == "begun"]
    assert len(begun) == 2 and begun[0] == 90 and 0 <= begun[1] < 90


@pytest.mark.parametrize("api", [True, False], ids=["", "the API does not answer"])
def test_a_refusal_releases_a_node_that_an_earlier_run_has_left_cordoned(site: Site, api: bool) -> None:
    site.answer("node_maintenance", {"changed": True} if api else {"failed": True, "msg": "no complete answer"})
    status, output = site.play(
        PLAYBOOK, {"cluster_node_name": "gpu1", "cluster_api_kubeconfig": "/nowhere", "ansible_become": False}
    )
    assert [each["state"] for each in site.asked("node_maintenance")] == ["ended"]
    *_others, last = output.partition("Fail with the reason")
    assert status != 0 and "a restart: it would interrupt what uses the GPUs of gpu1: team/train." in last


def test_refusals_without_an_api_do_not_fail_the_other_hosts(tmp_path: Path) -> None:
    """gpu1 and gpu2 are refused, and gpu3 has no users. Each refused host gets the kubeconfig for its release."""
    site = Site(tmp_path, WORKERS[:3])
    site.answer("gpu_pods_info", {"pods": [{"uid": "u1", "namespace": "team", "name": "train", "empty_dirs": []}]})
    site.answer("gpu_pods_info", {"pods": []}, host="gpu3")
    for module in ("node_identity", "node_maintenance"):
        site.answer(module, {"failed": True, "msg": "no complete answer"})
    text = "clusters: [{cluster: {server: https://cp1}}]\nusers: [{user: {token: t}}]\n"
    settings = {
        "cluster_node_name": "{{ inventory_hostname }}",
        "ansible_become": False,
        "policies": dict.fromkeys(WORKERS, "refuse"),
        "__cluster_api_file": {"content": base64.b64encode(text.encode()).decode()},
        "_cluster_api_private_file": f"{tmp_path}/kubeconfig{{{{ 999 | random }}}}",
    }
    status, output = site.play(HOLD, settings)
    assert status != 0
    for module in ("managed_service", "gpu_host_info"):
        assert {name for name, calls in by_host(site, module).items() if calls} == {"gpu3"}, output
    for name in ("gpu1", "gpu2"):
        assert f"a restart: it would interrupt what uses the GPUs of {name}: team/train." in output
        assert [call["state"] for call in by_host(site, "node_maintenance")[name]] == ["ended"]


def test_users_that_block_a_deferred_change_are_recorded_and_shown(held: tuple[int, str, Site]) -> None:
    _status, output, site = held
    written = {name: calls for name, calls in by_host(site, "managed_files").items() if calls}
    assert set(written) == {"gpu4", "gpu5"}
    for calls in written.values():
        (file,) = calls[0]["files"]
        assert file["path"] == "/var/lib/gpulab/deferred.json"
        entry = {"since": EARLIER["since"], "change": "a restart", "users": ["team/train (Job train)"]}
        assert json.loads(file["content"]) == {"disruption": {**entry, "pending": "containerd: configuration"}}
    told = " ".join(output.split())
    assert "WARNING: gpu4 is left for a later run, because a restart is blocked by team/train (Job" in told
