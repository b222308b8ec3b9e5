"""Driver upgrades of a cluster in use: one node after the other, no pod interrupted without consent, rollback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster, gpu_deployment
from support.hosts import Host, Inventory
from support.lab import Lab, running
from support.play import Run, play

SPEC = Path(__file__).parent / "specs" / "driver.yml"
OLD, NEW = "580.178.04", "595.91.07"
ANNOTATION = "gpulab.io/driver-upgrade"
PACKAGES = "dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n' | grep -E '^(lib)?nvidia|^cuda-drivers'"


@dataclass(frozen=True)
class Park:
    lab: Lab
    inventory: Inventory
    cluster: Cluster

    def upgrade(self, version: str, *arguments: str, env: dict[str, str] | None = None) -> Run:
        wanted = f"nvidia_driver_version={version}"
        return play(self.lab.path, "-e", wanted, *arguments, playbook="playbooks/upgrade_driver.yml", env=env)

    def host(self, name: str) -> Host:
        return self.inventory.hosts[name]

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.get("node", name)
        return found

    def in_use(self, name: str) -> bool:
        """Assert that a node is as it was before any upgrade."""
        node = self.node(name)
        known = {**node["metadata"].get("annotations", {}), **node["metadata"]["labels"]}
        return ANNOTATION not in known and not node["spec"].get("unschedulable")

    def versions(self) -> dict[str, str]:
        """Return nvidia-smi's output on each worker."""
        query = "nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort -u"
        return {host.name: host.run(query).strip() for host in self.inventory.workers}


@pytest.fixture(scope="module")
def park() -> Iterator[Park]:
    with running("driver", SPEC) as lab:
        play(lab.path).expect_success()
        inventory = lab.inventory()
        yield Park(lab, inventory, Cluster.of(inventory))


def test_an_upgrade_to_the_installed_version_changes_nothing(park: Park) -> None:
    run = park.upgrade(OLD).expect_unchanged()
    assert run.failures() == ""


def test_site_yml_names_the_playbook_that_changes_a_driver(park: Park) -> None:
    run = play(park.lab.path, "-e", f"nvidia_driver_version={NEW}")
    assert run.status != 0 and "gpulab.kubernetes.upgrade_driver" in run.output
    assert not run.changed()


def test_running_pods_are_not_interrupted_by_default(park: Park) -> None:
    park.cluster.apply(*gpu_deployment("train", budget=True))
    pod = park.cluster.pod_of("train")
    node = pod["spec"]["nodeName"]
    packages = park.host(node).run(PACKAGES)
    run = park.upgrade(NEW, "--limit", node)
    assert run.status != 0
    assert pod["metadata"]["name"] in run.failures() and "cluster_disruption_policy=drain" in run.failures()
    assert park.in_use(node) and park.host(node).run(PACKAGES) == packages
    assert park.cluster.pod_of("train")["metadata"]["uid"] == pod["metadata"]["uid"]


@pytest.mark.parametrize("policy", ["defer", "wait"])
def test_a_node_in_use_is_left_for_a_later_run(park: Park, policy: str) -> None:
    pod = park.cluster.pod_of("train")
    node = pod["spec"]["nodeName"]
    packages = park.host(node).run(PACKAGES)
    arguments = ("-e", f"cluster_disruption_policy={policy}", "-e", "cluster_disruption_wait=10")
    run = park.upgrade(NEW, "--limit", node, *arguments).expect_success()
    blocking = f"default/{pod['metadata']['name']} (ReplicaSet "
    assert f"{node} is left for a later run" in run.output and blocking in run.words
    assert park.in_use(node) and park.host(node).run(PACKAGES) == packages
    assert park.cluster.pod_of("train")["metadata"]["uid"] == pod["metadata"]["uid"]
    entry = json.loads(park.host(node).run("cat /var/lib/gpulab/deferred.json"))["driver-upgrade"]
    assert entry["pending"] == f"the NVIDIA driver to {NEW}" and entry["users"][0].startswith(blocking)
    planned = play(park.lab.path, playbook="playbooks/plan.yml").expect_success()
    assert f"deferred since {entry['since']}" in planned.words


def test_a_drain_that_a_disruption_budget_blocks_releases_the_node(park: Park) -> None:
    pod = park.cluster.pod_of("train")
    node = pod["spec"]["nodeName"]
    run = park.upgrade(
        NEW, "--limit", node, "-e", "cluster_disruption_policy=drain", "-e", "nvidia_driver_drain_timeout=10"
    )
    assert run.status != 0
    assert "disruption budget" in run.failures() and pod["metadata"]["name"] in run.failures()
    assert park.in_use(node)
    assert park.cluster.pod_of("train")["metadata"]["uid"] == pod["metadata"]["uid"]
    assert park.versions()[node] == OLD


def test_nodes_are_drained_one_after_the_other_and_the_job_continues(park: Park) -> None:
    park.cluster.kubectl("delete", "poddisruptionbudget", "train")
    before = park.cluster.pod_of("train")
    foreseen = park.upgrade(NEW, "--check", "-e", "cluster_disruption_policy=drain").expect_success()
    assert park.versions() == {"gpu1": OLD, "gpu2": OLD}
    run = park.upgrade(NEW, "-e", "cluster_disruption_policy=drain").expect_success()
    assert park.versions() == {"gpu1": NEW, "gpu2": NEW}
    assert {task for _, task in foreseen.changed()} <= run.changed_tasks()
    assert park.in_use("gpu1") and park.in_use("gpu2")
    for host in park.inventory.workers:
        assert host.run("cat /var/lib/gpulab/deferred.json 2>/dev/null || true") == "", "a deferral outlived the change"
    assert park.cluster.pod_of("train")["metadata"]["uid"] != before["metadata"]["uid"]
    assert park.cluster.allocatable_gpus() == park.inventory.expected_gpus()
    park.cluster.kubectl("delete", "deployment", "train", "--wait")
    for host in park.inventory.workers:
        assert OLD not in host.run(PACKAGES), "parts of the former driver were left behind"
        assert host.run("systemctl is-active nvidia-cdi-refresh.path").strip() == "active"


def test_after_the_upgrade_nothing_is_left_to_do(park: Park) -> None:
    park.upgrade(NEW).expect_unchanged()
    play(park.lab.path, "-e", f"nvidia_driver_version={NEW}").expect_unchanged()


def test_a_cordoned_node_stays_cordoned_through_a_downgrade(park: Park) -> None:
    park.cluster.kubectl("cordon", "gpu1")
    park.upgrade(OLD).expect_success()
    assert park.versions() == {"gpu1": OLD, "gpu2": OLD}
    assert park.node("gpu1")["spec"]["unschedulable"] is True and park.in_use("gpu2")
    assert ANNOTATION not in park.node("gpu1")["metadata"].get("annotations", {})
    for host in park.inventory.workers:
        assert NEW not in host.run(PACKAGES)
    park.cluster.kubectl("uncordon", "gpu1")


@pytest.mark.parametrize(("fault", "words"), [("load", "could not insert"), ("dkms", "implicit declaration")])
def test_a_driver_that_fails_is_rolled_back_and_the_other_nodes_are_not_changed(
    park: Park, fault: str, words: str
) -> None:
    park.lab.fault("gpu1", f"{fault}:{NEW}")
    run = park.upgrade(NEW)
    assert run.status != 0
    failures = run.failures()
    assert words in failures and f"The driver was rolled back to {OLD}" in failures
    assert park.versions() == {"gpu1": OLD, "gpu2": OLD}
    node = park.node("gpu1")
    assert node["spec"]["unschedulable"] is True
    assert words in json.loads(node["metadata"]["annotations"][ANNOTATION])["failure"]
    assert park.in_use("gpu2")
    park.lab.fault("gpu1", "clear")
    park.upgrade(OLD).expect_success()
    assert park.in_use("gpu1")
    play(park.lab.path).expect_unchanged()


# Different points of an upgrade: before the drain, without a driver, packages partly changed, before the verification.
@pytest.mark.parametrize(
    "task",
    [
        "nvidia_driver_upgrade : Stop the services that use the driver",
        "nvidia_driver : Add NVIDIA's CUDA repository, keep nouveau out, and install what the driver is built with",
        "nvidia_driver : Load the kernel module, and start the services of the driver",
        "node_change : Let the pods return that have left the node",
    ],
)
def test_the_next_run_resumes_an_upgrade_that_was_interrupted_anywhere(park: Park, task: str) -> None:
    version = NEW if park.versions()["gpu2"] == OLD else OLD
    run = park.upgrade(version, "--limit", "gpu2", env={"GPULAB_KILL_AT": f"gpulab.kubernetes.{task}"})
    assert any(event["event"] == "killed" for event in run.events), f"not killed at {task}\n{run.tail()}"
    assert not park.in_use("gpu2")
    park.upgrade(version, "--limit", "gpu2").expect_success()
    assert park.versions()["gpu2"] == version
    assert park.in_use("gpu2")
    park.upgrade(version, "--limit", "gpu2").expect_unchanged()


def test_an_upgrade_makes_all_drivers_equal_again_and_site_yml_changes_nothing(park: Park) -> None:
    park.upgrade(OLD).expect_success()
    play(park.lab.path).expect_unchanged()
