"""Switching between the device plugin and the GPU Operator, with a stand-in for NVIDIA's chart."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster
from support.hosts import Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, play, refused

from lab.depot import operator_image

PLAYBOOK = "playbooks/gpu_operator.yml"
SPEC = Path(__file__).parent / "specs" / "one-worker.yml"
_PODS = (
    "get pods --all-namespaces --output=jsonpath='{range .items[*]}{.spec.nodeName} {.status.phase} "
    '{.metadata.namespace}/{.metadata.name}{"\\n"}{end}\''
)


@dataclass(frozen=True)
class Site:
    """A finished cluster with the device plugin, and the way to install the operator on it."""

    lab: Lab
    inventory: Inventory
    cluster: Cluster

    def operator(self, *arguments: str, playbook: str = PLAYBOOK, **values: Any) -> Run:
        wanted = {
            "cluster_gpu_manager": "gpu_operator",
            "gpu_operator_helm": str(operator_image.helm()),
            "gpu_operator_chart_path": str(operator_image.CHART),
            "gpu_operator_timeout": 240,
            **values,
        }
        return play(self.lab.path, "-e", json.dumps(wanted), *arguments, playbook=playbook)

    def daemonsets(self) -> set[str]:
        listed = self.cluster.get("daemonsets", "--all-namespaces")["items"]
        return {f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in listed}

    def state(self) -> str:
        found: str = self.cluster.get("clusterpolicy", "cluster-policy")["status"]["state"]
        return found

    @contextmanager
    def watched(self) -> Iterator[list[dict[str, set[str]]]]:
        """Collect which device plugins run on each node, several times a second."""
        host, samples = self.inventory.control_plane, list[dict[str, set[str]]]()
        kubectl = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
        loop = f"rm -f /tmp/watch.*; while [ ! -e /tmp/watch.end ]; do {kubectl} {_PODS}; echo end; sleep 0.2; done"
        host.run(f"systemd-run --quiet --unit=watch-plugins bash -c {json.dumps(loop + ' >/tmp/watch.log')}")
        try:
            yield samples
        finally:
            host.run("touch /tmp/watch.end; systemctl stop watch-plugins 2>/dev/null; true")
            for sample in host.run("cat /tmp/watch.log").split("end\n"):
                found: dict[str, set[str]] = {}
                for line in sample.splitlines():
                    node, _space, rest = line.partition(" ")
                    phase, _space, name = rest.partition(" ")
                    if "/nvidia-device-plugin" in name and phase == "Running":
                        found.setdefault(node, set()).add(name)
                samples.append(found)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    lab_command("build", "--with", "operator")
    with running("gpu-operator", SPEC) as lab:
        play(lab.path).expect_success()
        inventory = lab.inventory()
        yield Site(lab, inventory, Cluster.of(inventory))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gpu_operator_values": {"driver": {"useOpenKernelModules": True}}}, ["driver.kernelModuleType"]),
        ({"gpu_operator_values": {"toolkit": {"enabled": True}}}, ["gpu1", "second container toolkit"]),
        ({"gpu_operator_values": {"operator": {"imag": "x"}}}, ["does not read operator.imag", "operator.image looks"]),
        ({"gpu_operator_helm": "/nowhere/helm"}, ["no program /nowhere/helm", "gpu_operator_helm"]),
        ({"gpu_operator_chart_path": "/nowhere/chart"}, ["/nowhere/chart", "gpu_operator_chart_path"]),
    ],
)
def test_invalid_settings_are_reported_before_anything_changes(
    site: Site, values: dict[str, Any], words: list[str]
) -> None:
    before = site.daemonsets()
    run = site.operator(**values)
    assert run.status != 0
    assert all(word in run.failures() for word in words), run.failures()
    assert not run.changed()
    assert site.daemonsets() == before


def test_a_running_gpu_pod_blocks_the_change(site: Site) -> None:
    pod = site.cluster.start_gpu_pod("tenant", 1)
    run = site.operator()
    assert run.status != 0
    assert "default/tenant" in run.failures()
    assert not run.changed()
    assert site.cluster.get("pod", "tenant")["metadata"]["uid"] == pod["metadata"]["uid"]
    site.cluster.delete_pod("tenant")


def test_the_operator_takes_over_and_no_gpu_is_offered_twice(site: Site) -> None:
    expected = site.inventory.expected_gpus()
    predicted = site.operator("--check")
    predicted.expect_success()
    assert "nvidia-device-plugin/nvidia-device-plugin" in site.daemonsets()
    with site.watched() as samples:
        run = site.operator().expect_success()
    assert {task for task in run.changed_tasks() if "gpu_operator" in task} <= predicted.changed_tasks()
    assert site.state() == "ready"
    assert not any(name.startswith("nvidia-device-plugin/") for name in site.daemonsets())
    assert site.cluster.allocatable_gpus() == expected
    assert max(len(names) for sample in samples for names in sample.values()) == 1
    assert len({name for sample in samples for names in sample.values() for name in names}) >= 2
    site.operator().expect_unchanged()


def test_site_yml_keeps_the_operator_and_verifies_every_gpu(site: Site) -> None:
    site.operator(playbook="site.yml").expect_success()
    site.operator(playbook="site.yml").expect_unchanged()
    totals = json.loads(site.lab.report.read_text())["totals"]
    assert totals["proven"] == sum(site.inventory.expected_gpus().values())


def test_a_driver_of_the_operator_is_not_changed_while_a_pod_uses_a_gpu(site: Site) -> None:
    present = {"driver": {"enabled": True, "version": "580.178.04"}}
    site.operator(gpu_operator_values=present).expect_success()
    site.cluster.start_gpu_pod("trains", 1)
    run = site.operator(gpu_operator_values={"driver": {"enabled": True, "version": "595.10"}})
    unchanged = site.operator(gpu_operator_values=present)
    site.cluster.delete_pod("trains")
    assert run.status != 0 and not run.changed()
    assert "default/trains" in run.failures() and "GPU Operator's driver (driver.version)" in run.failures()
    unchanged.expect_unchanged()
    site.operator().expect_success()


def test_without_the_setting_site_yml_names_who_offers_the_gpus(site: Site) -> None:
    words = refused(site.lab.path)
    assert "The cluster's GPUs are offered by the GPU Operator" in words
    assert "cluster_gpu_manager: gpu_operator" in words
    assert site.state() == "ready"


def test_an_operand_that_does_not_become_ready_is_named(site: Site) -> None:
    run = site.operator(gpu_operator_values={"dcgmExporter": {"version": "no-such-version"}})
    assert run.status != 0
    assert "operand nvidia-dcgm-exporter" in run.failures()
    assert "no-such-version" in run.failures()
    assert site.state() == "notReady"
    site.operator().expect_success()
    assert site.state() == "ready"


def test_an_operator_that_finds_no_gpu_node_is_not_ready(site: Site) -> None:
    without: dict[str, Any] = {"gpu_operator_values": {"nfd": {"enabled": False}}}
    site.operator(**without).expect_success()
    (gpu_node,) = site.inventory.expected_gpus()
    site.cluster.kubectl("label", "node", gpu_node, "feature.node.kubernetes.io/system-os_release.ID-")
    run = site.operator(**without, gpu_operator_timeout=30)
    assert run.status != 0
    assert "NFDLabelsMissing" in run.failures()
    site.operator().expect_success()
    assert site.state() == "ready"


def test_pods_of_the_operator_tolerate_the_taints_of_workers(site: Site) -> None:
    (gpu_node,) = site.inventory.expected_gpus()
    taint = "nvidia.com/gpu=present:NoSchedule"
    site.cluster.kubectl("taint", "node", gpu_node, taint)
    try:
        site.cluster.kubectl("delete", "pod", "--namespace=gpu-operator", "--selector=app=nfd-gc")
        site.operator().expect_unchanged()
    finally:
        site.cluster.kubectl("taint", "node", gpu_node, f"{taint}-")


def interrupted(secret: dict[str, Any], status: str) -> dict[str, Any]:
    """Return the release that a killed helm leaves: the next revision, with a status that never changes."""
    number = int(secret["metadata"]["labels"]["version"]) + 1
    release = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
    release["version"], release["info"]["status"] = number, status
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()
    labels = {**secret["metadata"]["labels"], "version": str(number), "status": status}
    name = f"sh.helm.release.v1.{labels['name']}.v{number}"
    metadata = {"name": name, "namespace": secret["metadata"]["namespace"], "labels": labels}
    return {**secret, "metadata": metadata, "data": {"release": packed}}


@pytest.mark.parametrize("status", ["pending-upgrade", "uninstalling"])
def test_a_killed_run_of_helm_is_resumed(site: Site, status: str) -> None:
    secrets = site.cluster.get("secrets", "--namespace=gpu-operator", "--selector=owner=helm")["items"]
    site.cluster.apply(interrupted(max(secrets, key=lambda one: int(one["metadata"]["labels"]["version"])), status))
    run = site.operator().expect_success()
    assert {task.rpartition(" : ")[2] for task in run.changed_tasks()} == {
        "Remove the unfinished releases of an interrupted helm run"
    }
    site.operator().expect_unchanged()


def test_the_device_plugin_takes_the_gpus_back(site: Site) -> None:
    back = ("-e", "cluster_gpu_manager=device_plugin", "-e", f"gpu_operator_helm={operator_image.helm()}")
    with site.watched() as samples:
        play(site.lab.path, *back, playbook=PLAYBOOK).expect_success()
    assert max(len(names) for sample in samples for names in sample.values()) == 1
    assert site.cluster.get("clusterpolicies")["items"] == []
    assert not any(name.startswith("gpu-operator/") for name in site.daemonsets())
    assert site.cluster.allocatable_gpus() == site.inventory.expected_gpus()
    play(site.lab.path, *back, playbook=PLAYBOOK).expect_unchanged()
    play(site.lab.path).expect_success()
