# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preview of a restore, and who is asked for what, with stubbed modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from site_trace import trace
from stubbed_site import Site
from test_site_trace import CA, FURTHER, Story

PLAYBOOK = "- name: Restore\n  ansible.builtin.import_playbook: gpulab.kubernetes.restore\n"
HASH = "sha256:" + "a" * 64
BACKUP = {"cluster": "lab", "node": "cp1", "kubernetes": "1.36.4", "taken": "2026-11-28T14:00:03Z"}
PREVIEW = {"backup": BACKUP, "lines": ["what is lost"], "endpoint": "", "lost": [], "ending": []}
TRACE = """\
Find everything that is wrong, before anything changes
  cp1, gpu1: preflight_info (check)
  gpu1: preflight_info (check)

Show what the restore changes
  cp1, gpu1: node_pods_info (check)
  cp1: cluster_restore (check)
"""


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr("test_site_trace.FURTHER", (*FURTHER, "cluster_restore", "node_pods_info"))
    made = Story(tmp_path, bare=["cp1"], finished=["gpu1"])
    for answer in made.answers:
        cluster = answer["result"].get("cluster", {})
        if cluster.get("role") == "worker":
            cluster |= {"ca_hashes": [HASH], "ca": CA, "endpoint": "192.168.7.11:6443", "name": "lab"}
    made.answer("node_pods_info", {"pods": [{"uid": "u", "namespace": "a", "name": "train"}]}, host="gpu1")
    made.answer("node_pods_info", {"failed": True, "msg": "crictl does not answer"}, host="cp1")
    made.answer("cluster_restore", PREVIEW)
    made.settings |= {"cluster_name": "lab", "cluster_kubeconfig": "", "restore_archive": "/backups/b.tar"}
    made.settings["restore_archive_on_host"] = True
    return made


def test_check_mode_is_the_preview(story: Story) -> None:
    status, output = story.play(PLAYBOOK, story.settings, "--check")
    assert status == 0, output
    assert trace(story.events()) == TRACE
    assert "what is lost" in output
    (given,) = Site.asked(story, "cluster_restore")
    assert given["trusted"] == {"gpu1": [HASH]}
    assert given["endpoints"] == {"gpu1": "192.168.7.11:6443"}
    # The pods of a node that could not be read are unknown.
    assert given["pods"] == {"cp1": None, "gpu1": [{"uid": "u", "namespace": "a", "name": "train"}]}
    assert (given["cluster_name"], given["control_planes"], given["accept"]) == ("lab", ["cp1"], [])
    assert given["node"]["localAPIEndpoint"]["advertiseAddress"] == "192.168.7.11"
    assert given["node"]["nodeRegistration"]["name"] == "cp1"
    assert [each["kind"] for each in given["kubelet"]] == ["KubeletConfiguration", "KubeProxyConfiguration"]
    assert "api.lab.internal" in given["api_names"]


def test_endpoint_of_an_earlier_release_stays(story: Story) -> None:
    older = {**PREVIEW, "endpoint": "192.168.7.11:6443"}
    story.answers.insert(0, {"module": "cluster_restore", "host": "", "word": "", "result": older})
    shown = "- hosts: gpu1\n  gather_facts: false\n  tasks:\n    - ansible.builtin.debug: {var: cluster_api_endpoint}\n"
    status, output = story.play(PLAYBOOK + shown, story.settings, "--check")
    assert status == 0 and '"cluster_api_endpoint": "192.168.7.11:6443"' in output, output


def test_restore_that_is_not_confirmed_ends_after_the_preview(story: Story) -> None:
    for name in ("", "other"):
        status, output = story.play(PLAYBOOK, {**story.settings, "restore_confirm": name})
        assert status != 0
        assert "add -e restore_confirm=lab to the command" in " ".join(output.split())
    assert all(event["check"] for event in story.events() if event.get("module") == "cluster_restore")


def test_refusal_is_shown_and_nothing_changes(story: Story) -> None:
    refusal: dict[str, Any] = {"failed": True, "msg": "Error while restoring a backup: why not. Nothing was changed."}
    story.answers.insert(0, {"module": "cluster_restore", "host": "", "word": "", "result": refusal})
    status, output = story.play(PLAYBOOK, {**story.settings, "restore_confirm": "lab"})
    assert status != 0 and "why not. Nothing was changed." in " ".join(output.split())
    assert {event.get("module") for event in story.events()} - {None} == {
        "preflight_info",
        "node_pods_info",
        "cluster_restore",
    }


def test_identity_is_never_in_a_file_on_the_host() -> None:
    """Without pipelining, Ansible writes the arguments of a module to the host's disk."""
    role = Path(__file__).parents[3] / "roles/restore/tasks"
    tasks = [task for path in role.glob("*.yml") for task in yaml.safe_load(path.read_text()) or []]
    users = [task for task in tasks if "restore_age_identity" in str(task)]
    assert users and all(task["vars"]["ansible_pipelining"] is True for task in users)


def test_archive_must_be_named(story: Story) -> None:
    del story.settings["restore_archive"]
    status, output = story.play(PLAYBOOK, story.settings, "--check")
    assert status != 0 and "restore_archive" in output
