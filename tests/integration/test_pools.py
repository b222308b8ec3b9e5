"""A heterogeneous cluster: pods run where they should, and labels and taints follow the declaration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cluster import IMAGE, Cluster
from support.hosts import Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, play

SPECS = Path(__file__).parent / "specs"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}


@dataclass(frozen=True)
class Site:
    lab: Lab
    inventory: Inventory
    cluster: Cluster

    def pools(self, *arguments: str, **values: Any) -> Run:
        return play(self.lab.path, "-e", json.dumps(values), *arguments, playbook="playbooks/node_pools.yml")

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.get("node", name)
        return found

    def taints(self, name: str) -> list[dict[str, str]]:
        return [taint for taint in self.node(name)["spec"].get("taints", []) if "kubernetes.io" not in taint["key"]]

    def lands(self, name: str, **spec: Any) -> str:
        """Start a pod and return its node, or an empty string if it is unschedulable."""
        container = {"name": "main", "image": IMAGE, "command": ["/bin/sh", "-c", "exec sleep 600"]}
        gpus = spec.pop("gpus", 0)
        resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
        pod = {"containers": [{**container, "resources": resources}], "terminationGracePeriodSeconds": 0, **spec}
        metadata = {"name": name, "namespace": "default"}
        self.cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
        self.cluster.kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.conditions}", "--timeout=60s")
        found = self.cluster.get("pod", name)
        self.cluster.delete_pod(name)
        node: str = found["spec"].get("nodeName", "")
        return node


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running("pools", SPECS / "pools.yml") as lab:
        play(lab.path).expect_success()
        inventory = lab.inventory()
        yield Site(lab, inventory, Cluster.of(inventory))


def test_each_pool_has_its_label_and_taint_and_every_gpu_is_verified(site: Site) -> None:
    pools = {name: site.node(name)["metadata"]["labels"].get("gpulab.io/pool") for name in site.inventory.hosts}
    assert pools == {"cp1": None, "gpu1": "t4", "gpu2": "a100", "cpu1": "cpu"}
    assert site.node("cpu1")["metadata"]["labels"]["gpulab.io/disk"] == "nvme"
    assert {name: site.taints(name) for name in pools} == {"cp1": [], "gpu1": [TAINT], "gpu2": [TAINT], "cpu1": []}
    totals = json.loads(site.lab.report.read_text())["totals"]
    assert (totals["gpus"], totals["proven"]) == (3, 3)
    play(site.lab.path).expect_unchanged()


def test_each_pool_has_its_own_driver(site: Site) -> None:
    versions = {host.name: host.run("cat /proc/driver/nvidia/version || true") for host in site.inventory.workers}
    assert "580.178.04" in versions["gpu1"]
    assert "595.91.07" in versions["gpu2"]
    assert "NVRM" not in versions["cpu1"]


def test_pods_select_nodes_by_pool_product_and_memory_and_others_stay_away(site: Site) -> None:
    for number in range(3):
        assert site.lands(f"plain-{number}") == "cpu1"
    assert site.lands("untold", gpus=1) == ""
    tolerant = {"gpus": 1, "tolerations": [TOLERATION]}
    labels = site.node("gpu2")["metadata"]["labels"]
    for key in ("gpulab.io/pool", "nvidia.com/gpu.product", "nvidia.com/gpu.memory"):
        assert site.lands("chosen", nodeSelector={key: labels[key]}, **tolerant) == "gpu2"
    assert site.lands("two", **{**tolerant, "gpus": 2}) == "gpu1"


def test_labels_no_longer_declared_are_removed_and_unmanaged_ones_stay(site: Site) -> None:
    site.cluster.kubectl("label", "node", "gpu1", "team=vision")
    site.cluster.kubectl("taint", "node", "gpu1", "team=vision:PreferNoSchedule")
    without = {"cluster_node_pool": "", "cluster_node_taints": [], "cluster_node_labels": {}}
    predicted = site.pools("--check", **without)
    predicted.expect_success()
    assert predicted.changed()
    assert site.taints("gpu2") == [TAINT]
    site.pools(**without).expect_success()
    site.pools(**without).expect_unchanged()
    assert site.taints("gpu2") == []
    assert [taint["key"] for taint in site.taints("gpu1")] == ["team"]
    labels = site.node("gpu1")["metadata"]["labels"]
    assert (labels["team"], labels.get("gpulab.io/pool")) == ("vision", None)
    assert labels["nvidia.com/gpu.count"] == "2"
    assert labels["gpulab.io/gpu"] == "true"
    site.pools().expect_success()
    site.pools().expect_unchanged()
    assert {taint["key"] for taint in site.taints("gpu1")} == {"team", "nvidia.com/gpu"}


def test_a_pod_installs_the_driver_on_hosts_without_driver_packages() -> None:
    """The hosts of this lab get their driver from the image and have no driver package."""
    lab_command("build", "--with", "installer")
    with running("driver-installer", SPECS / "installer.yml") as lab:
        play(lab.path).expect_success()
        play(lab.path).expect_unchanged()
        inventory = lab.inventory()
        (host,) = inventory.workers
        totals = json.loads(lab.report.read_text())["totals"]
        assert (totals["gpus"], totals["proven"]) == (2, 2)
        assert Cluster.of(inventory).allocatable_gpus() == {"gpu1": 2}
        assert "nvidia-driver" not in host.run("dpkg-query --show --showformat='${Package} '")
        assert "/opt/nvidia/driver" in host.run("cat /var/run/cdi/nvidia.yaml")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"cluster_node_taints": [{"key": "nvidia.com/gpu"}]}, ["DNS", "Remove the taints from one node"]),
        ({"cluster_node_labels": {"nvidia.com/gpu.count": "9"}}, ["gpu1", "feature discovery"]),
        ({"cluster_node_labels": {"team": "speech"}}, ["gpu1", "team=vision, which is not managed by this collection"]),
        ({"cluster_node_taints": [{"key": "a", "effect": "NoExecute"}]}, ["cluster_node_taints", "NoExecute"]),
    ],
)
def test_invalid_settings_are_reported_before_anything_changes(
    site: Site, values: dict[str, Any], words: list[str]
) -> None:
    before = {name: (site.node(name)["metadata"]["labels"], site.taints(name)) for name in site.inventory.hosts}
    run = site.pools(**values)
    assert run.status != 0
    assert all(word in run.failures() for word in words), run.failures()
    assert before == {name: (site.node(name)["metadata"]["labels"], site.taints(name)) for name in site.inventory.hosts}
