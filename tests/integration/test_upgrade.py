"""Kubernetes gets a new minor while jobs run: they are left, waited for, and signaled, and no step is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.api_prober import KINDS, ApiProber, admin_access
from support.cluster import Cluster, gpu_deployment, gpu_pod
from support.gpu_pod_prober import GpuPodProber
from support.hosts import Inventory
from support.lab import Lab, lab_command, running
from support.play import play, variables

SPEC = Path(__file__).parent / "specs" / "upgrade.yml"
FROM, TO = "1.36.5", "1.37.2"
UPGRADE = "playbooks/upgrade_cluster.yml"
GAP = 90
Figure = Callable[[str, float], None]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    lab_command("build", "--kubernetes", FROM, "--kubernetes", TO, "--with", "etcd", timeout=7200)
    with running("upgrade", SPEC) as started:
        play(started.path).expect_success()
        yield started


@pytest.fixture(scope="module")
def inventory(lab: Lab) -> Inventory:
    return lab.inventory()


@pytest.fixture(scope="module")
def cluster(inventory: Inventory) -> Cluster:
    return Cluster.of(inventory)


def kubelets(cluster: Cluster) -> dict[str, str]:
    nodes = cluster.get("nodes")["items"]
    assert not [node for node in nodes if node["spec"].get("unschedulable")]
    return {node["metadata"]["name"]: node["status"]["nodeInfo"]["kubeletVersion"].removeprefix("v") for node in nodes}


def to(version: str, policy: str, **more: Any) -> list[str]:
    return variables(cluster_kubernetes_version=version, cluster_disruption_policy=policy, **more)


def test_the_plan_changes_nothing_and_names_the_jobs(lab: Lab, inventory: Inventory, cluster: Cluster) -> None:
    with GpuPodProber(cluster, inventory.hosts["gpu1"], "busy"):
        run = play(lab.path, "--check", *to(TO, "defer"), playbook=UPGRADE).expect_unchanged()
        for words in (f"Kubernetes {FROM} -> {TO}", "default/busy", "back only by a restore"):
            assert words in run.output
        refused = play(lab.path, *to(TO, "refuse"), playbook=UPGRADE)
        assert refused.status and "GPUs are in use" in refused.failures()
    assert set(kubelets(cluster).values()) == {FROM}


@pytest.mark.parametrize(("version", "words"), [("1.35.8", "can't be downgraded"), ("1.99.0", "table of versions")])
def test_versions_that_are_impossible_are_refused(lab: Lab, version: str, words: str) -> None:
    run = play(lab.path, *to(version, "defer"), playbook=UPGRADE)
    assert run.status and words in run.failures()


def test_the_cluster_is_upgraded_around_a_training(
    lab: Lab, inventory: Inventory, cluster: Cluster, tmp_path: Path, figure: Figure
) -> None:
    host = inventory.control_plane
    resolver = {
        name: each.run("grep resolvConf /var/lib/kubelet/config.yaml") for name, each in inventory.hosts.items()
    }
    with (
        GpuPodProber(cluster, inventory.hosts["gpu1"], "training") as training,
        ApiProber(admin_access(host), tmp_path / "answers.jsonl") as prober,
    ):
        prober.wait()
        run = play(lab.path, *to(TO, "defer"), playbook=UPGRADE).expect_success()
        steps = training.expect_running()
        assert (steps.restarts, steps.lost) == (0, 0)
        assert "left for a later run" in run.output
        assert kubelets(cluster) == {"cp1": TO, "gpu1": FROM, "gpu2": TO}
        # The next run, and site.yml with its default policy, leave the node, too.
        play(lab.path, *variables(cluster_kubernetes_version=TO)).expect_success()
        assert training.expect_running().restarts == 0
    for kind in KINDS:
        figure(f"gap ({kind})", prober.gap(kind).seconds)
        assert prober.gap(kind).seconds <= GAP
    manifest = host.run("cat /etc/kubernetes/manifests/etcd.yaml")
    assert "etcd:3.7.0-0" in manifest
    for name, each in inventory.hosts.items():
        assert each.run("grep resolvConf /var/lib/kubelet/config.yaml") == resolver[name]
    assert len(host.run("ls /etc/kubernetes/tmp").split()) <= 4
    assert "kubelet" in inventory.hosts["gpu2"].run("apt-mark showhold")


@pytest.mark.parametrize("kind", ["budget", "alone"])
def test_a_pod_that_can_not_be_evicted_defers_its_node(
    lab: Lab, cluster: Cluster, inventory: Inventory, kind: str
) -> None:
    if kind == "budget":
        cluster.kubectl("cordon", "gpu2")
        cluster.apply(*gpu_deployment("kept", budget=True))
        cluster.kubectl("wait", "deployment/kept", "--for=condition=Available", "--timeout=120s")
        cluster.kubectl("uncordon", "gpu2")
    else:
        cluster.apply(gpu_pod("alone", 0, "gpu1"))
        cluster.kubectl("wait", "pod/alone", "--for=condition=Ready", "--timeout=120s")
    try:
        options = to(TO, "drain", kubernetes_upgrade_drain_timeout=20)
        run = play(lab.path, *options, playbook=UPGRADE).expect_success()
        assert "left for a later run" in run.output
        assert kubelets(cluster)["gpu1"] == FROM
    finally:
        cluster.kubectl("delete", "deployment,poddisruptionbudget", "kept", "--ignore-not-found")
        cluster.kubectl("delete", "pod", "alone", "--ignore-not-found", "--wait")


def test_a_training_that_saves_when_it_is_signaled_loses_no_step(
    lab: Lab, inventory: Inventory, cluster: Cluster
) -> None:
    deployment, *_rest = gpu_deployment("saving")
    cluster.apply(deployment)
    cluster.kubectl("wait", "deployment/saving", "--for=condition=Available", "--timeout=120s")
    options = to(TO, "signal", cluster_disruption_wait=60)
    play(lab.path, *options, playbook=UPGRADE).expect_success()
    assert set(kubelets(cluster).values()) == {TO}
    cluster.kubectl("delete", "deployment", "saving", "--wait")


def test_a_second_run_changes_nothing_and_all_gpus_are_verified(lab: Lab) -> None:
    play(lab.path, *to(TO, "refuse"), playbook=UPGRADE).expect_unchanged()
    play(lab.path, *variables(cluster_kubernetes_version=TO)).expect_success()
    play(lab.path, *variables(cluster_kubernetes_version=TO)).expect_unchanged()
    totals = json.loads(lab.report.read_text())["totals"]
    assert totals["proven"] == totals["gpus"]
