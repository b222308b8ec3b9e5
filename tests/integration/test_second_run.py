"""A second run on a finished cluster changes nothing, restarts nothing and interrupts nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Built
from support.hosts import ROOT
from support.play import play
from support.state import services

EXECUTIONS_PER_HOST, ON_CONTROL_PLANE = 2, 3
TASKS = 60


@pytest.fixture(scope="module")
def tenant(built: Built) -> Iterator[dict[str, Any]]:
    """A user's pod that holds one GPU."""
    yield built.cluster.start_gpu_pod("tenant", 1)
    built.cluster.delete_pod("tenant")


def still_the_same(built: Built, pod: dict[str, Any]) -> None:
    now = built.cluster.get("pod", pod["metadata"]["name"])
    assert now["metadata"]["uid"] == pod["metadata"]["uid"]
    assert now["status"]["containerStatuses"] == pod["status"]["containerStatuses"]


def report(built: Built) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(built.lab.report.read_text())
    return read


def test_the_first_run_verified_every_gpu(built: Built) -> None:
    totals, expected = report(built)["totals"], sum(built.inventory.expected_gpus().values())
    assert (totals["gpus"], totals["proven"], totals["in_use"]) == (expected, expected, 0)


def test_a_second_run_changes_and_restarts_nothing_and_keeps_the_verification(
    built: Built, tenant: dict[str, Any]
) -> None:
    running_since, proof = services(built.inventory), report(built)
    run = play(built.lab.path).expect_unchanged()
    assert services(built.inventory) == running_since
    still_the_same(built, tenant)
    assert report(built)["kept"] is True
    assert report(built)["totals"]["proven"] == proof["totals"]["proven"]
    most = dict.fromkeys(built.inventory.hosts, EXECUTIONS_PER_HOST)
    most[built.inventory.control_plane.name] = ON_CONTROL_PLANE
    assert {host: count for host, count in run.executions().items() if count > most[host]} == {}
    assert run.tasks() <= TASKS


def test_a_new_verification_names_the_gpu_in_use_and_evicts_no_pod(built: Built, tenant: dict[str, Any]) -> None:
    play(built.lab.path, playbook="playbooks/verify.yml").expect_success()
    found = report(built)
    expected = sum(built.inventory.expected_gpus().values())
    assert found["kept"] is False
    assert (found["totals"]["proven"], found["totals"]["in_use"]) == (expected - 1, 1)
    devices = found["hosts"][tenant["spec"]["nodeName"]]["devices"]
    assert [d["state"] for d in devices if "tenant" in (d.get("pod") or "")] == ["in_use"]
    still_the_same(built, tenant)


def test_only_a_setting_that_drifted_is_fixed(built: Built) -> None:
    host = built.inventory.workers[0]
    host.run("sysctl -q -w net.ipv4.ip_forward=0 && rm /etc/sysctl.d/95-gpulab.conf")
    run = play(built.lab.path).expect_success()
    assert {name for name, _ in run.changed()} == {host.name}
    assert len(run.changed_tasks()) == 1
    assert host.run("sysctl -n net.ipv4.ip_forward; ls /etc/sysctl.d/95-gpulab.conf").split()[0] == "1"


def test_the_installed_collection_works_the_same_from_another_directory(built: Built, tmp_path: Path) -> None:
    galaxy("build", str(ROOT), "--output-path", str(tmp_path))
    archive = next(tmp_path.glob("gpulab-kubernetes-*.tar.gz"))
    galaxy("install", "--no-deps", "--collections-path", str(tmp_path / "installed"), str(archive))
    (tmp_path / "ansible.cfg").write_text("")
    env = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "installed"), "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}
    play(built.lab.path, playbook="gpulab.kubernetes.site", cwd=tmp_path, env=env).expect_unchanged()


def galaxy(*arguments: str) -> None:
    subprocess.run(["ansible-galaxy", "collection", *arguments], cwd="/", check=True, capture_output=True)


def test_the_report_needs_no_pod_and_tolerates_an_unreachable_host(built: Built, tmp_path: Path) -> None:
    run = play(built.lab.path, playbook="playbooks/report.yml").expect_unchanged()
    assert run.failures() == ""
    found = report(built)
    assert found["kept"] is True and found["actions"] == []
    assert found["hosts"]["cp1"]["certificates"]
    assert not [row for host in found["hosts"].values() for row in host["versions"] if row["drift"]]
    assert "data-gpu" in built.lab.report.with_suffix(".html").read_text()
    gone = tmp_path / "gone.ini"
    gone.write_text("gpu1 ansible_port=1\n")
    play(built.lab.path, "-i", str(gone), playbook="playbooks/report.yml").expect_unchanged()
    found = report(built)
    assert found["hosts"]["gpu1"]["reachable"] is False
    assert [each["kind"] for each in found["actions"]] == ["unreachable"]
    assert found["totals"]["proven"] > 0
