"""Metrics of each GPU: exported, verified, compatible with a driver upgrade, and removed.

The exporter is the lab's stand-in, which reads the simulated NVML, because DCGM does not support simulated GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster
from support.hosts import Host, Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, play

SPEC = Path(__file__).parent / "specs" / "metrics.yml"
SPACE, NEW = "dcgm-exporter", "595.91.07"


@dataclass(frozen=True)
class Site:
    lab: Lab
    inventory: Inventory
    cluster: Cluster

    @property
    def worker(self) -> Host:
        return self.inventory.hosts["gpu1"]

    def metrics(self, *arguments: str, **variables: Any) -> Run:
        extra = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
        return play(self.lab.path, *arguments, *extra, playbook="playbooks/metrics.yml")

    def uuids(self) -> set[str]:
        return set(self.worker.run("nvidia-smi --query-gpu=uuid --format=csv,noheader").split())

    def pod(self) -> str:
        (name,) = self.cluster.kubectl("get", "pods", f"--namespace={SPACE}", "--output=name").split()
        return name.removeprefix("pod/")

    def exported(self) -> str:
        path = f"/api/v1/namespaces/{SPACE}/pods/{self.pod()}:9400/proxy/metrics"
        return self.cluster.kubectl("get", "--raw", path)

    def objects(self) -> str:
        kinds = "namespaces,daemonsets,services,pods"
        chosen = "--selector=app.kubernetes.io/part-of=dcgm-exporter"
        return self.cluster.kubectl("get", kinds, "--all-namespaces", chosen, "--output=name")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    lab_command("build", "--with", "dcgm")
    with running("metrics", SPEC) as lab:
        play(lab.path).expect_success()
        inventory = lab.inventory()
        yield Site(lab, inventory, Cluster.of(inventory))


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"dcgm_exporter_intervall": 10}, "dcgm_exporter_interval"),
        ({"dcgm_exporter_interval": 0}, "it must be 1 to 300 seconds"),
        ({"dcgm_exporter_namespace": "DCGM"}, "it must consist of at most 63 lower-case letters"),
        ({"dcgm_exporter_namespace": "kube-flannel"}, "not created by this collection: Namespace kube-flannel"),
        ({"cluster_gpu_manager": "gpu_operator"}, "runs an exporter of its own"),
    ],
)
def test_invalid_settings_are_reported_before_anything_changes(
    site: Site, variables: dict[str, Any], words: str
) -> None:
    run = site.metrics(**variables)
    assert run.status != 0
    assert words in run.failures()
    assert not run.changed()
    assert site.objects() == ""


def test_each_gpu_has_metrics_and_a_second_run_changes_nothing(site: Site) -> None:
    predicted = site.metrics("--check", "--diff").expect_success()
    assert predicted.changed() and site.objects() == ""
    run = site.metrics().expect_success()
    assert predicted.changed() == run.changed()
    assert "gpu1: metrics of 2 GPUs" in run.output
    pod = site.pod()
    assert set(re.findall(r'DCGM_FI_DEV_GPU_TEMP\{.*?UUID="([^"]+)"', site.exported())) == site.uuids()
    site.metrics().expect_unchanged()
    site.metrics("--check").expect_unchanged()
    assert site.pod() == pod
    assert site.cluster.allocatable_gpus() == {"gpu1": 2}


def test_a_lost_gpu_is_named_with_its_host(site: Site) -> None:
    uuids = site.uuids()
    site.lab.fault("gpu1", "lost", "--gpu", "1")
    run = site.metrics()
    assert run.status != 0
    (lost,) = uuids - set(re.findall(r'DCGM_FI_DEV_GPU_TEMP\{.*?UUID="([^"]+)"', site.exported()))
    assert f'UUID="{lost}"' in site.exported(), "its last Xid is still there"
    (line,) = [line for line in run.failures().splitlines() if line.lstrip().startswith("- gpu1")]
    assert "has no metrics of GPU 1" in line and lost in line and "GPU is lost" in line
    assert not run.changed()
    site.lab.fault("gpu1", "clear")
    site.metrics().expect_unchanged()


def test_the_exporter_does_not_block_a_driver_upgrade(site: Site) -> None:
    pod = site.pod()
    wanted = ("-e", f"nvidia_driver_version={NEW}")
    play(site.lab.path, *wanted, playbook="playbooks/upgrade_driver.yml").expect_success()
    site.metrics(*wanted).expect_unchanged()
    assert site.pod() != pod
    assert f'DCGM_FI_DRIVER_VERSION="{NEW}"' in site.exported()


def test_an_unmanaged_exporter_is_named(site: Site) -> None:
    run = site.metrics(dcgm_exporter_namespace="monitoring")
    assert "it runs in the namespace dcgm-exporter already" in run.failures()
    assert not run.changed()


def test_removal_leaves_nothing(site: Site) -> None:
    predicted = site.metrics("--check", dcgm_exporter_state="absent").expect_success()
    assert predicted.changed() and site.pod()
    site.metrics(dcgm_exporter_state="absent").expect_success()
    assert site.objects() == ""
    site.metrics(dcgm_exporter_state="absent").expect_unchanged()
