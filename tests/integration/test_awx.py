"""Every job template of awx/ on the lab, run with ansible-runner in the execution environment as AWX does."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.awx_job import launch, templates
from support.cluster import Cluster
from support.hosts import ROOT, Inventory
from support.lab import Lab, lab_command, running
from support.state import differences, snapshots

SPEC = ROOT / "tests" / "integration" / "specs" / "training.yml"
# These have their own tests below, in the order of the workflow.
OWN_TESTS = {
    "gpulab preflight",
    "gpulab provision",
    "gpulab allowed driver replacement",
    "gpulab upgrade driver",
    "gpulab allowed driver upgrade",
    "gpulab backup",
    "gpulab restore",
    *(f"gpulab {kind} node {change}" for kind in ("preview", "allowed") for change in ("removal", "replacement")),
    "gpulab preview reset",
    "gpulab allowed reset",
    "gpulab preview Kubernetes upgrade",
    "gpulab allowed Kubernetes upgrade",
}
# The release after the default one.
NEXT = "1.37.2"
ANSWERS = {"gpulab train": {"torch_ddp_gpus_per_node": 2, "torch_ddp_timeout": 900}}
# These need machines or accounts that not every cluster has. Other groups run their playbooks.
WANTING = {
    "gpulab W&B Launch": "set wandb_launch_entity to your team at W&B",
    "gpulab W&B Launch with Docker": "none of the hosts of this run is in the group docker",
    "gpulab Docker": "none of the hosts of this run is in the group docker",
    "gpulab minikube": "none of the hosts of this run is in the group minikube",
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    parts = ("ee", "torch", "dcgm", "local-path", "etcd")
    lab_command("build", *(word for part in parts for word in ("--with", part)))
    lab_command("build", "--kubernetes", NEXT, timeout=3600)
    with running("awx", SPEC) as started:
        yield started


@pytest.fixture(scope="module")
def inventory(lab: Lab) -> Inventory:
    return lab.inventory()


@pytest.fixture
def directory(lab: Lab, request: pytest.FixtureRequest) -> Path:
    """Return the directory of the job's files, which is kept so that a failed job can be inspected."""
    return lab.directory / re.sub(r"\W+", "-", request.node.name)


def test_preflight_finds_no_problem_on_bare_machines_and_changes_nothing(inventory: Inventory, directory: Path) -> None:
    before = snapshots(inventory)
    job = launch("gpulab preflight", inventory, directory).expect_success()
    assert job.changed() == set()
    assert differences(before, snapshots(inventory)) == {}
    assert job.command[:2] == ["podman", "run"], "the job was not isolated"


def test_the_image_contains_helm_and_the_collection_for_projects_without_it(
    inventory: Inventory, directory: Path
) -> None:
    job = launch("gpulab preflight", inventory, directory, project=ROOT / "examples" / "project").expect_success()
    tasks = {path for event in job.events if (path := event.get("event_data", {}).get("task_path"))}
    assert tasks and all(path.startswith("/usr/share/ansible/collections/") for path in tasks)
    settings = json.loads(lab_command("ee"))
    argv = ["podman", "run", "--rm", *settings["container_options"], settings["container_image"], "helm", "version"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.count("v3.")


def test_the_image_contains_what_the_modules_of_all_templates_import() -> None:
    settings = json.loads(lab_command("ee"))
    argv = ["podman", "run", "--rm", *settings["container_options"], settings["container_image"], "python3", "-c"]
    modules = ("kubernetes", "yaml", "wandb.sdk.launch.api", "wandb.sdk.launch.agent.config")
    subprocess.run([*argv, f"import {', '.join(modules)}"], check=True)


def test_preflight_with_a_limit_reports_only_the_selected_host(inventory: Inventory, directory: Path) -> None:
    job = launch("gpulab preflight", inventory, directory, limit="gpu1").expect_success()
    hosts = {event["event_data"].get("host") for event in job.events if event["event"] == "runner_on_ok"}
    assert "cp1" not in hosts
    assert "gpu1" in hosts


def test_provision_creates_and_verifies_the_cluster_and_a_dry_run_then_predicts_no_change(
    inventory: Inventory, directory: Path
) -> None:
    first = launch("gpulab provision", inventory, directory).expect_success()
    assert first.report()["totals"]["proven"] == sum(inventory.expected_gpus().values())
    assert Cluster.of(inventory).ready_nodes() == set(inventory.hosts)
    dry = launch("gpulab provision", inventory, directory.with_name("dry"), job_type="check").expect_success()
    assert dry.changed() == set()
    name = "gpulab allowed driver replacement"
    second = launch(name, inventory, directory.with_name("second"), after=first).expect_success()
    assert second.changed() == set()


def with_variables(inventory: Inventory, **values: object) -> Inventory:
    hosts = {name: replace(host, variables={**host.variables, **values}) for name, host in inventory.hosts.items()}
    return replace(inventory, hosts=hosts)


@pytest.mark.parametrize("name", [name for name in templates() if name not in {*OWN_TESTS, *WANTING}])
def test_every_other_template_succeeds_on_the_cluster(name: str, inventory: Inventory, directory: Path) -> None:
    stored = with_variables(inventory, cluster_storage=["local_path"])
    checked = None
    if "cluster_approval_required" in templates()[name].get("extra_vars", {}):
        checked = launch("gpulab preflight", stored, directory.with_name("checked")).expect_success()
    job = launch(name, stored, directory, answers=ANSWERS.get(name), after=checked).expect_success()
    assert templates()[name]["playbook"] in " ".join(job.command)


@pytest.mark.parametrize(("name", "reason"), WANTING.items())
def test_a_template_without_anything_to_do_in_the_inventory_ends_with_one_error(
    name: str, reason: str, inventory: Inventory, directory: Path
) -> None:
    job = launch(name, inventory, directory)
    assert job.status == "failed" and reason in job.words
    assert job.output.count("fatal: ") == 1 and job.changed() == set()


def test_the_driver_is_upgraded_to_the_version_that_the_inventory_names(inventory: Inventory, directory: Path) -> None:
    unnamed = launch("gpulab upgrade driver", inventory, directory)
    assert unnamed.status == "failed"
    assert "Set it in the inventory" in unnamed.output
    version = inventory.workers[0].run("nvidia-smi --query-gpu=driver_version --format=csv,noheader").split()[0]
    named = with_variables(inventory, nvidia_driver_version=version)
    job = None
    for template in ("gpulab upgrade driver", "gpulab allowed driver upgrade"):
        job = launch(template, named, directory.with_name("named"), after=job)
        assert job.expect_success().changed() == set()


def test_a_gpu_fault_fails_the_job_with_a_reason_and_stops_the_workflow(
    lab: Lab, inventory: Inventory, directory: Path
) -> None:
    lab.fault("gpu1", "lost", "--gpu", "0")
    try:
        job = launch("gpulab verify", inventory, directory)
    finally:
        lab.fault("gpu1", "clear")
    assert job.status == "failed"
    assert "The verification found problems" in job.output
    nodes = yaml.safe_load((ROOT / "awx" / "workflows.yml").read_text())["awx_configure_workflows"][0]["nodes"]
    assert all(set(node) == {"identifier", "job_template", "success_nodes"} for node in nodes)


def test_a_backup_is_taken_and_its_restore_is_shown(inventory: Inventory, directory: Path) -> None:
    stored, host = with_variables(inventory, backup_enabled=True), inventory.control_plane
    launch("gpulab backup", stored, directory).expect_success()
    archive = host.run("ls -t /var/lib/gpulab/backups/*.tar* | head -n 1").strip()
    shown = launch("gpulab restore", stored, directory.with_name("shown"), answers={"restore_archive": archive})
    assert shown.status == "failed" and "Nothing was changed. To restore this backup, add" in shown.words


def test_kubernetes_is_upgraded_as_approved(inventory: Inventory, directory: Path) -> None:
    wanted = {"cluster_kubernetes_version": NEXT, "cluster_disruption_policy": "defer", "backup_enabled": True}
    stored = with_variables(inventory, **wanted)
    shown = launch("gpulab preview Kubernetes upgrade", stored, directory.with_name("shown")).expect_success()
    assert f"-> {NEXT}" in shown.words and shown.changed() == set()
    # The approval of another workflow is none of a plan.
    checked = launch("gpulab preflight", stored, directory.with_name("checked")).expect_success()
    unapproved = launch("gpulab allowed Kubernetes upgrade", stored, directory, after=checked)
    assert (unapproved.status, unapproved.changed()) == ("failed", set()) and "no plan was approved" in unapproved.words
    another = with_variables(stored, cluster_serial=2)
    other = launch("gpulab allowed Kubernetes upgrade", another, directory, after=shown)
    assert (other.status, other.changed()) == ("failed", set()) and "Read the plan, and approve it" in other.words
    upgraded = launch("gpulab allowed Kubernetes upgrade", stored, directory, after=shown).expect_success()
    verified = launch("gpulab verify", stored, directory.with_name("verified"), after=upgraded).expect_success()
    assert verified.report()["totals"]["proven"] == sum(inventory.expected_gpus().values())
    nodes = Cluster.of(inventory).get("nodes")["items"]
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes} == {f"v{NEXT}"}


def test_nodes_and_the_cluster_are_removed_as_approved(inventory: Inventory, directory: Path) -> None:
    """Without an answer, or the approval of a preview, nothing changes."""
    # As the test before it has left them.
    inventory = with_variables(inventory, backup_enabled=True)
    node = {"remove_node_names": "gpu1"}
    for change in ("removal", "replacement"):
        unnamed = launch(f"gpulab preview node {change}", inventory, directory)
        assert (unnamed.status, unnamed.changed()) == ("failed", set()) and "no node is named" in unnamed.words
        unapproved = launch(f"gpulab allowed node {change}", inventory, directory, answers=node)
        assert (unapproved.status, unapproved.changed()) == ("failed", set())
    shown = launch("gpulab preview node removal", inventory, directory.with_name("shown"), answers=node)
    shown.expect_success()
    # The machine in the inventory is that of the node already.
    for name in ("gpulab preview node replacement", "gpulab allowed node replacement"):
        assert launch(name, inventory, directory, answers=node, after=shown).expect_success().changed() == set()
    launch("gpulab allowed node removal", inventory, directory, answers=node, after=shown).expect_success()
    assert Cluster.of(inventory).ready_nodes() == {"cp1"}
    shown = launch("gpulab preview reset", inventory, directory.with_name("shown")).expect_success()
    unnamed = launch("gpulab allowed reset", inventory, directory, after=shown)
    cluster = re.search(r"reset_confirm=(\S+)", unnamed.words)
    assert (unnamed.status, unnamed.changed()) == ("failed", set()) and cluster
    answers = {"reset_confirm": cluster[1]}
    launch("gpulab allowed reset", inventory, directory, answers=answers, after=shown).expect_success()
    for host in inventory.hosts.values():
        host.run("test ! -e /etc/kubernetes")
