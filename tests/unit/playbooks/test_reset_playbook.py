# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is asked and reset in which order, with stubbed modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from site_trace import trace
from stubbed_site import Site
from test_site_trace import FURTHER, Story

PLAYBOOK = "- name: Reset\n  ansible.builtin.import_playbook: gpulab.kubernetes.reset\n"
WITHOUT_BACKUP = {"reset_last_etcd_copy": "lose"}
WHOLE = """\
Find out what the reset removes
  cp1, gpu1, gpu2: host_reset (check)

Prepare the reset
  cp1: cluster_lease held
  cp1, gpu1, gpu2: gpu_pods_info

Reset the workers
  gpu1, gpu2: host_reset

Reset the control planes, the first one last
  cp1: host_reset
"""
LIMITED = """\
Find out what the reset removes
  gpu2: host_reset (check)
  cp1: preflight_info

Check that the hosts may be reset
  gpu2: temporary_file
  controller: managed_files kubeconfig of the run, kubeconfig of the run.patience
  controller: k8s_info
  controller: managed_files remove kubeconfig of the run, remove kubeconfig of the run.patience

Prepare the reset
  cp1: cluster_lease held
  gpu2: gpu_pods_info

Reset the workers
  gpu2: host_reset

Complete the reset
  cp1: cluster_lease released
"""


def found(name: str, **fields: Any) -> dict[str, Any]:
    cluster = {"name": "lab", "role": "", "node_name": name, "ca_hashes": []}
    return {"kept": [], "cluster": cluster, "etcd": "", "begun": False, "actions": [], **fields}


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(
        "test_site_trace.FURTHER", (*FURTHER, "host_reset", "etcd_info", "etcd_member", "cluster_backup")
    )
    made = Story(tmp_path, finished=["cp1", "gpu1", "gpu2"])
    for name in ("cp1", "gpu1", "gpu2"):
        made.answer("host_reset", found(name, etcd="/var/lib/etcd" if name == "cp1" else ""), host=name)
    made.answer("k8s_info", {"resources": [{"metadata": {"name": name}} for name in ("cp1", "gpu1")]})
    made.settings |= {"cluster_name": "lab", "cluster_kubeconfig": "", "reset_confirm": "lab"}
    made.settings["cluster_api_endpoint"] = "192.168.7.11:6443"
    return made


def resets(story: Story) -> list[tuple[str, bool]]:
    """Return the host of each reset, and whether the data of etcd may go."""
    calls = [event for event in story.events() if event.get("module") == "host_reset" and not event["check"]]
    found = [(event["host"], event["args"]["lose_etcd"]) for event in calls]
    # Workers do not wait for each other, and the control planes for all of them.
    workers = [each for each in found if each[0] != "cp1"]
    assert found[: len(workers)] == workers
    return sorted(workers) + found[len(workers) :]


def test_the_whole_cluster_goes_workers_first(story: Story) -> None:
    status, output = story.play(PLAYBOOK, {**story.settings, **WITHOUT_BACKUP})
    assert status == 0, output
    assert trace(story.events()) == WHOLE


def test_a_host_that_has_left_goes_alone(story: Story) -> None:
    status, output = story.play(PLAYBOOK, story.settings, "--limit", "gpu2,localhost")
    assert status == 0, output
    assert trace(story.events()) == LIMITED
    assert resets(story) == [("gpu2", False)]


def test_a_host_that_is_still_a_node_is_refused(story: Story) -> None:
    status, output = story.play(PLAYBOOK, story.settings, "--limit", "gpu1,localhost")
    assert status != 0 and "gpu1 is still a node of the cluster. First run" in " ".join(output.split())
    assert resets(story) == []


@pytest.mark.parametrize(("further", "status"), [({}, 2), ({"reset_without_api": True}, 0)])
def test_without_an_api_only_words_reset_a_host(story: Story, further: dict[str, Any], status: int) -> None:
    story.answer("k8s_info", {"failed": True, "msg": "Connection refused"})
    found_status, output = story.play(PLAYBOOK, {**story.settings, **further}, "--limit", "gpu2,localhost")
    assert found_status == status, output
    assert bool(resets(story)) is (status == 0)
    words = " ".join(output.split())
    assert ("The cluster can't be asked whether gpu2 has left it." in words) is (status != 0)


def test_host_of_a_cluster_that_no_longer_exists_is_reset(story: Story) -> None:
    """No control plane can be reached, and a person says that there is no API."""
    # Answers are by the host that delegates.
    story.answer("preflight_info", {"unreachable": True, "msg": "No route to host"}, host="gpu2")
    status, output = story.play(PLAYBOOK, story.settings, "--limit", "gpu2,localhost")
    assert status == 2 and "The cluster can't be asked whether gpu2 has left it." in " ".join(output.split())
    status, output = story.play(PLAYBOOK, {**story.settings, "reset_without_api": True}, "--limit", "gpu2,localhost")
    assert status == 0, output
    assert resets(story) == [("gpu2", False)]


@pytest.mark.parametrize(
    ("answer", "limit", "allowed"),
    [
        ({}, [], True),
        ({}, ["--limit", "gpu2,localhost"], False),
        ({"held_by": "bob@laptop"}, [], False),
    ],
)
def test_whole_reset_needs_no_lease_of_an_api_that_answers_with_errors(
    answer: dict[str, Any], limit: list[str], allowed: bool, story: Story
) -> None:
    story.answer("cluster_lease", {"failed": True, "msg": "the API server is overloaded", **answer})
    status, output = story.play(PLAYBOOK, {**story.settings, **WITHOUT_BACKUP}, *limit)
    assert (status == 0) is allowed, output
    assert "the API server is overloaded" in " ".join(output.split())
    assert bool(resets(story)) is allowed


@pytest.mark.parametrize("name", ["", "other"])
def test_reset_that_is_not_confirmed_ends_before_anything_changes(story: Story, name: str) -> None:
    status, output = story.play(PLAYBOOK, {**story.settings, "reset_confirm": name})
    assert status != 0
    assert "To remove the whole cluster lab, add -e reset_confirm=lab to the command." in " ".join(output.split())
    assert {event["module"] for event in story.events() if event["event"] == "call"} == {"host_reset"}
    assert resets(story) == []


def test_check_mode_needs_no_confirmation_and_changes_nothing(story: Story) -> None:
    status, output = story.play(PLAYBOOK, {**story.settings, "reset_confirm": ""}, "--check", "--diff")
    assert status == 0, output
    assert resets(story) == []
    assert len(Site.asked(story, "host_reset")) == 6 and not Site.asked(story, "cluster_lease")


def test_limit_that_takes_the_only_control_plane_is_refused(story: Story) -> None:
    status, output = story.play(PLAYBOOK, story.settings, "--limit", "cp1,localhost")
    assert status != 0 and "Without its control plane, gpu1, gpu2 would keep parts of a cluster" in " ".join(
        output.split()
    )
    assert resets(story) == []


def test_running_job_ends_the_reset_before_anything_changes(story: Story) -> None:
    pod = {"namespace": "team", "name": "train", "empty_dirs": []}
    story.answer("gpu_pods_info", {"pods": [pod]}, host="gpu1")
    status, output = story.play(PLAYBOOK, {**story.settings, **WITHOUT_BACKUP})
    assert status != 0 and "Error while preparing the reset: it would interrupt" in " ".join(output.split())
    assert resets(story) == []


def test_cluster_stays_if_its_last_backup_fails(story: Story) -> None:
    story.answer("cluster_backup", {"failed": True, "msg": "etcd does not answer."})
    status, output = story.play(PLAYBOOK, story.settings)
    words = " ".join(output.split())
    assert status != 0 and "Error while taking the last backup: etcd does not answer. Nothing was removed." in words
    assert resets(story) == []


def test_last_copy_goes_when_its_backup_is_on_the_controller(story: Story, tmp_path: Path) -> None:
    archive = tmp_path / "host" / "gpulab-lab-20261128T120000Z.tar"
    archive.parent.mkdir()
    archive.write_text("archive")
    taken = {"archive": str(archive), "taken": "2026-11-28T12:00:00Z", "revision": 1, "key_count": 1, "size": 7}
    story.answer("cluster_backup", {"changed": True, **taken, "recipients": [], "places": []})
    status, output = story.play(PLAYBOOK, {**story.settings, "reset_backup_directory": str(tmp_path / "kept")})
    assert status == 0, output
    assert (tmp_path / "kept" / archive.name).read_text() == "archive"
    assert resets(story) == [("gpu1", True), ("gpu2", True), ("cp1", True)]


def test_interrupted_reset_takes_no_backup_and_asks_no_pods(story: Story) -> None:
    for name in ("cp1", "gpu1", "gpu2"):
        story.answer("host_reset", found(name, begun=True, etcd="/var/lib/etcd" if name == "cp1" else ""), host=name)
    status, output = story.play(PLAYBOOK, story.settings)
    assert status == 0, output
    assert not Site.asked(story, "cluster_backup") and not Site.asked(story, "gpu_pods_info")
    # What was agreed to is in the host's own record.
    assert resets(story) == [("gpu1", False), ("gpu2", False), ("cp1", False)]
