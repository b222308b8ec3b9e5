"""`--check --diff` and plan.yml predict the changes of a real run, on bare and finished hosts, and change nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Built
from support.lab import Lab
from support.play import Run, play
from support.state import differences, services, snapshots

# Tasks for which check mode can't predict what a real run does, with the reason. Any other difference is a bug.
ONLY_PREDICTED: dict[str, str] = {}
ONLY_REAL: dict[str, str] = {}


PLANNED_ROLES = {"host", "nvidia_driver", "containerd", "nvidia_container_toolkit", "kubeadm"}
# Maximum of modules that run on a host for a plan: what preflight reads, the drivers available for a host without one,
# and what is pending.
PLAN_EXECUTIONS = 3


def plan(lab: Lab) -> dict[str, Any]:
    """Return the result of plan.yml, which changes nothing."""
    before = snapshots(lab.inventory())
    run = play(lab.path, playbook="playbooks/plan.yml").expect_unchanged()
    assert differences(before, snapshots(lab.inventory())) == {}
    control_plane = lab.inventory().control_plane.name
    more = {host: n for host, n in run.executions().items() if n > PLAN_EXECUTIONS and host != control_plane}
    assert more == {}
    found: dict[str, Any] = json.loads((lab.path.parent / "gpulab-plan.json").read_text())
    return found


def roles_of(plan: dict[str, Any]) -> set[tuple[str, str]]:
    return {(host, role) for host, roles in plan["hosts"].items() for role in roles}


def roles_changed(run: Run) -> set[tuple[str, str]]:
    found = {(host, task.partition(" : ")[0].rpartition(".")[2]) for host, task in run.changed()}
    return {(host, role) for host, role in found if role in PLANNED_ROLES}


@pytest.fixture(scope="session")
def planned(lab: Lab) -> dict[str, Any]:
    return plan(lab)


@pytest.fixture(scope="session")
def predicted(lab: Lab, planned: dict[str, Any]) -> Run:
    inventory = lab.inventory()
    before = snapshots(inventory)
    run = play(lab.path, "--check", "--diff").expect_success()
    assert differences(before, snapshots(inventory)) == {}
    return run


def test_on_bare_hosts_check_mode_predicts_the_changes_of_a_real_run(predicted: Run, built: Built) -> None:
    real, foreseen = built.run.changed(), predicted.changed()
    missed = {task for _, task in real - foreseen}
    invented = {task for _, task in foreseen - real}
    assert sorted(missed) == sorted(ONLY_REAL), "changed for real, but not predicted"
    assert sorted(invented) == sorted(ONLY_PREDICTED), "predicted, but not changed for real"


def test_on_bare_hosts_check_mode_shows_the_files_that_a_run_would_write(predicted: Run, built: Built) -> None:
    assert "+++" in predicted.output
    assert predicted.stats().keys() == built.run.stats().keys()


def test_on_finished_hosts_check_mode_predicts_and_makes_no_change(built: Built) -> None:
    before, running_since = snapshots(built.inventory), services(built.inventory)
    play(built.lab.path, "--check", "--diff").expect_unchanged()
    assert differences(before, snapshots(built.inventory)) == {}
    assert services(built.inventory) == running_since


def test_on_bare_hosts_the_plan_names_the_roles_that_change_them(planned: dict[str, Any], built: Built) -> None:
    assert roles_of(planned) == roles_changed(built.run)
    assert not planned["cluster_is_known"]


def test_on_finished_hosts_nothing_is_pending(built: Built) -> None:
    assert plan(built.lab) == {
        "hosts": {name: {} for name in built.inventory.hosts},
        "cluster": {},
        "cluster_is_known": True,
        "deferred": {},
        "reboots": {},
    }


def test_after_manual_changes_the_plan_names_the_roles_that_a_run_then_changes(built: Built) -> None:
    worker = built.inventory.workers[0]
    built.cluster.kubectl("--namespace=kube-flannel", "delete", "daemonset", "kube-flannel-ds", "--cascade=foreground")
    worker.run("rm /etc/sysctl.d/*gpulab*; sysctl -q net.ipv4.ip_forward=0; systemctl stop containerd")
    found = plan(built.lab)
    assert roles_of(found) == {(worker.name, "host"), (worker.name, "containerd")}
    assert found["cluster"]["flannel"][0] == "DaemonSet kube-flannel/kube-flannel-ds"
    run = play(built.lab.path).expect_success()
    assert roles_changed(run) == roles_of(found)
    play(built.lab.path).expect_unchanged()
