# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps in which a cluster gets a name as its endpoint, in check mode with stubbed modules."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from site_trace import trace
from stubbed_site import Site
from test_site_trace import KUBECONFIG, Story, finished, worker_joins

PLAYBOOK = "- name: Change the endpoint\n  ansible.builtin.import_playbook: gpulab.kubernetes.migrate_endpoint\n"
CONFIGURATION = "controlPlaneEndpoint: 192.168.7.11:6443\nkind: ClusterConfiguration\nnetworking: {}\n"
TOLD = {"action": "finished", "api": "alive", "gpus_twice": {}, "daemonsets": [], "gpu_managers": []}
TOLD |= dict.fromkeys(("reason", "advice", "version", "error"), "")
NAME = "api.lab.internal"
TRACE = """\
Find everything that is wrong, before anything changes
  cp1, gpu1: preflight_info (check)
  gpu1: preflight_info (check)
  controller: api_reach_info (check)

Check that the endpoint can be changed
  cp1: kubeadm_endpoint (check) cp1, gpu1
  cp1: cluster_lease (check) held

Add the name to the certificates of the API servers
  cp1: cluster_lease (check) held
  cp1: managed_files (check) cluster.json
  cp1: kubeadm_control_plane (check)

Set up the name on each host
  cp1: cluster_lease (check) held
  cp1: host_state (check) hosts*
  gpu1: host_state (check) hosts*, packages*, distribution's service*, configuration*, service*

Let the kubelets use the name
  cp1: cluster_lease (check) held
  cp1: managed_files (check) remove 50-gpulab-proxy.env, remove 50-gpulab-proxy.conf, cluster.json
  cp1: kubeadm_endpoint (check) cp1, gpu1

Let the kubelets use the name
  cp1: cluster_lease (check) held
  gpu1: managed_files (check) remove 50-gpulab-proxy.env, remove 50-gpulab-proxy.conf, cluster.json
  gpu1: kubeadm_endpoint (check) cp1, gpu1

Let the control planes and the cluster use the name
  cp1: cluster_lease (check) held
  cp1: kubeadm_endpoint (check) cp1, gpu1
  cp1: kubeadm_endpoint (check) cp1, gpu1

Keep the kubeconfig on the controller
"""


@pytest.fixture
def story(tmp_path: Path) -> Story:
    made = finished(tmp_path)
    for answer in made.answers:
        cluster = answer["result"].get("cluster", {})
        if cluster.get("role") == "control_plane":
            cluster |= {"ca": "-----BEGIN CERTIFICATE-----\n", "endpoint": "192.168.7.11:6443"}
            answer["result"]["control_plane"] = {**TOLD, "texts": {"ClusterConfiguration": CONFIGURATION}}
    for module in ("hosts_file", "apt_packages", "managed_service", "managed_files"):
        made.answer(module, {"changed": True, "services": [], "actions": [], "restart": False})
    for module in ("kubeadm_control_plane", "kubeadm_endpoint"):
        made.answer(module, {"changed": True, "changes": [f"what {module} changes"]})
    made.settings |= {"cluster_name": "lab", "cluster_kubeconfig": ""}
    return made


def asked(story: Story, module: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Site.asked(story, module)
    return found


def test_steps_are_listed_in_order_and_nothing_changes(story: Story) -> None:
    status, output = story.play(PLAYBOOK, story.settings, "--check")
    assert status == 0, output
    told = trace(story.events())
    assert told.startswith(TRACE), told
    assert all(event["check"] for event in story.events() if event.get("module") == "kubeadm_endpoint")
    assert output.count("what kubeadm_endpoint changes") == 4 and "what kubeadm_control_plane changes" in output
    (control_plane,) = asked(story, "kubeadm_control_plane")
    assert control_plane["cluster"]["controlPlaneEndpoint"] == f"{NAME}:6443"
    assert control_plane["recorded"]["controlPlaneEndpoint"] == "192.168.7.11:6443"
    parts = [(args["part"], args["endpoint"], args["replaces"]) for args in asked(story, "kubeadm_endpoint")]
    former = ["192.168.7.11:6443"]
    steps = ("check", "kubelet", "kubelet", "kubeconfigs", "cluster")
    assert parts == [(part, f"{NAME}:6443", former) for part in steps]
    assert all(args["nodes"] == ["cp1", "gpu1"] for args in asked(story, "kubeadm_endpoint"))
    files = [file for args in asked(story, "managed_files") for file in args["files"]]
    records = [json.loads(file["content"]) for file in files if file["path"] == "/var/lib/gpulab/cluster.json"]
    assert records == [{"name": "lab", "api_name": NAME}] * 3


def test_kubeconfig_that_got_the_name_in_this_run_is_kept(story: Story) -> None:
    kubeconfig = KUBECONFIG.replace("192.168.7.11", NAME)
    story.settings["__cluster_api_file"] = {"content": base64.b64encode(kubeconfig.encode()).decode()}
    status, output = story.play(PLAYBOOK, story.settings, "--check")
    assert status == 0, output


@pytest.mark.parametrize(
    ("settings", "options", "words"),
    [
        ({"cluster_api_endpoint": "192.168.7.11:6443"}, [], "cluster_api_endpoint is set, so it stays the endpoint"),
        ({}, ["--limit", "cp1"], "--limit leaves out gpu1, and all nodes need the name"),
    ],
)
def test_run_that_would_leave_out_a_part_is_refused(
    story: Story, settings: dict[str, str], options: list[str], words: str
) -> None:
    status, output = story.play(PLAYBOOK, {**story.settings, **settings}, "--check", *options)
    assert status != 0 and words in " ".join(output.split())
    assert asked(story, "kubeadm_control_plane") == asked(story, "cluster_lease") == []


PLAN = "- name: Show the changes\n  ansible.builtin.import_playbook: gpulab.kubernetes.plan\n"


@pytest.mark.parametrize(
    ("in_hosts", "begun", "written"),
    # The last one is the name of a removed cluster.
    [(True, True, [{NAME: "127.0.0.1"}] * 2), (False, False, []), (True, False, [{}])],
)
def test_nodes_that_have_got_the_name_keep_it_before_the_migration_is_resumed(
    story: Story, in_hosts: bool, begun: bool, written: list[dict[str, str]], tmp_path: Path
) -> None:
    for answer in story.answers:
        if answer["result"].get("cluster", {}).get("role") == "control_plane":
            answer["result"]["hosts_file"] = {**answer["result"]["hosts_file"], "names": [NAME] * in_hosts}
            answer["result"]["cluster"]["api_server_names"] = [NAME] * begun
    more = {"cluster_http_proxy": "http://192.0.2.3:3128", "plan_report": str(tmp_path / "plan.json")}
    status, output = story.play(PLAN, {**story.settings, **more})
    assert status == 0, output
    files = [file for args in asked(story, "managed_files") for file in args["files"]]
    texts = [str(file) for file in files if "gpulab-proxy" in file["path"]]
    assert any(NAME in text for text in texts) == begun, texts
    assert [args["names"] for args in asked(story, "hosts_file")] == written


@pytest.mark.parametrize(
    ("module", "host", "word", "state", "parts"),
    [
        ("kubeadm_control_plane", "cp1", "", "failed", {"check"}),
        ("kubeadm_control_plane", "cp1", "", "unreachable", {"check"}),
        # The other host of the play has not failed.
        ("hosts_file", "gpu1", "", "failed", {"check"}),
        ("hosts_file", "gpu1", "", "unreachable", {"check"}),
        ("kubeadm_endpoint", "gpu1", "kubelet", "failed", {"check", "kubelet"}),
        ("kubeadm_endpoint", "gpu1", "kubelet", "unreachable", {"check", "kubelet"}),
    ],
)
def test_step_that_fails_on_one_host_is_the_last_one_on_all_hosts(
    story: Story, module: str, host: str, word: str, state: str, parts: set[str]
) -> None:
    story.answer(module, {state: True, "msg": "what went wrong"}, word=word, host=host)
    status, output = story.play(PLAYBOOK, story.settings, "--check")
    assert status != 0 and "what went wrong" in output
    assert {args["part"] for args in asked(story, "kubeadm_endpoint")} == parts


def test_host_that_joins_gets_rid_of_the_name_of_a_removed_cluster(tmp_path: Path) -> None:
    story = worker_joins(tmp_path)
    for answer in story.answers:
        if answer["host"] == "gpu2" and "hosts_file" in answer["result"]:
            answer["result"]["hosts_file"] = {**answer["result"]["hosts_file"], "names": [NAME]}
    story.answer("hosts_file", {"changed": True})
    site = "- name: Run\n  ansible.builtin.import_playbook: gpulab.kubernetes.site\n"
    status, output = story.play(site, {**story.settings, "cluster_api_endpoint": "192.168.7.11:6443"})
    assert status == 0, output
    # The plan, and the change.
    assert [args["names"] for args in asked(story, "hosts_file")] == [{}, {}]
