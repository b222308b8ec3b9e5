"""GPUs of a DRA driver: Kubernetes' example driver under the name of NVIDIA's, next to the device plugin."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster, gpu_pod
from support.hosts import Host
from support.lab import Lab, lab_command, running
from support.play import play, refused

from lab.depot import dra_driver

SPEC = Path(__file__).parent / "specs" / "driver.yml"
NODE, NEW = "gpu1", "595.91.07"
DRIVER = "gpu.nvidia.com"
LEFT_OUT = "nvidia.com/gpu.deploy.device-plugin"
UPGRADE = "playbooks/upgrade_driver.yml"
CLASS: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {
        "selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}],
        # As NVIDIA's chart does without the GPU Operator.
        "extendedResourceName": "nvidia.com/gpu",
    },
}
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}}
CLAIM: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "one-gpu", "namespace": "default"},
    "spec": {"devices": {"requests": [REQUEST]}},
}


@dataclass(frozen=True)
class Site:
    lab: Lab
    cluster: Cluster
    host: Host

    def slices(self) -> set[str]:
        found = self.cluster.get("resourceslices")["items"]
        return {one["spec"]["nodeName"] for one in found if one["spec"]["driver"] == DRIVER and one["spec"]["devices"]}

    def plugin_pods(self) -> list[dict[str, Any]]:
        where = ("--namespace", "nvidia-device-plugin", "--selector", "app=nvidia-device-plugin")
        found: list[dict[str, Any]] = self.cluster.get("pods", *where, "--field-selector", f"spec.nodeName={NODE}")[
            "items"
        ]
        return found


def wait_until(good: Any, words: str) -> None:
    deadline = time.monotonic() + 120
    while not good():
        assert time.monotonic() < deadline, words
        time.sleep(1)


def start_driver(site: Site) -> None:
    """Run the driver on the host, as its README describes for use outside of a cluster."""
    site.host.install(dra_driver.program())
    admin = site.cluster.control_plane.run("cat /etc/kubernetes/admin.conf")
    site.host.run(f"""
    set -e
    umask 077
    printf %s {shlex.quote(admin)} > /root/dra.conf
    mkdir -p /var/lib/kubelet/plugins/{DRIVER}
    systemd-run --quiet --unit=dra-test-driver --setenv=KUBECONFIG=/root/dra.conf /usr/local/bin/dra-test-driver \
        --drivername={DRIVER} kubelet-plugin --node-name={NODE} --num-devices=2
    """)
    wait_until(lambda: site.slices() == {NODE}, f"there is no ResourceSlice of {NODE}")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    lab_command("build", "--with", "dra")
    with running("dra", SPEC) as lab:
        play(lab.path).expect_success()
        inventory = lab.inventory()
        found = Site(lab, Cluster.of(inventory), inventory.hosts[NODE])
        found.cluster.apply(CLASS)
        start_driver(found)
        yield found


@pytest.mark.parametrize("playbook", ["site.yml", "playbooks/plan.yml"])
def test_a_device_plugin_and_resource_slices_on_one_node_are_refused_with_two_remedies(
    site: Site, playbook: str
) -> None:
    words = refused(site.lab.path, playbook=playbook)
    assert f"The GPUs of {NODE} would be offered to pods twice" in words
    assert "takes the name nvidia.com/gpu" in words
    assert "resources.gpus.enabled=false" in words and f"{LEFT_OUT}=false" in words


def test_a_pod_that_holds_a_gpu_through_a_claim_is_not_interrupted(site: Site) -> None:
    cluster = site.cluster
    cluster.kubectl("label", "node", NODE, f"{LEFT_OUT}=false")
    wait_until(lambda: site.plugin_pods() == [], f"the device plugin still has a pod on {NODE}")
    pod = gpu_pod("claimant", 0, NODE)
    [container] = pod["spec"]["containers"]
    del container["env"]
    container["resources"] = {"claims": [{"name": "gpu"}]}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "one-gpu"}]
    cluster.apply(CLAIM, pod)
    cluster.kubectl("wait", "pod/claimant", "--for=condition=Ready", "--timeout=120s")
    [allocated] = cluster.get("resourceclaim", "one-gpu")["status"]["allocation"]["devices"]["results"]
    assert (allocated["driver"], allocated["pool"]) == (DRIVER, NODE)
    uid = cluster.get("pod", "claimant")["metadata"]["uid"]
    run = play(site.lab.path, "-e", f"nvidia_driver_version={NEW}", "--limit", NODE, playbook=UPGRADE)
    assert run.status != 0
    assert "default/claimant" in run.failures() and "cluster_disruption_policy=drain" in run.failures()
    assert cluster.get("pod", "claimant")["metadata"]["uid"] == uid
    assert not cluster.get("node", NODE)["spec"].get("unschedulable")


def test_the_device_plugin_offers_gpus_again_after_the_slices_are_removed(site: Site) -> None:
    cluster = site.cluster
    cluster.delete_pod("claimant")
    cluster.kubectl("delete", "resourceclaim", "one-gpu", "--timeout=60s")
    site.host.run("systemctl stop dra-test-driver")
    cluster.kubectl("delete", "resourceslices", "--all")
    cluster.kubectl("delete", "deviceclass", DRIVER)
    cluster.kubectl("label", "node", NODE, f"{LEFT_OUT}-")
    play(site.lab.path).expect_success()
    report = json.loads(site.lab.report.read_text())
    assert report["problems"] == [] and report["totals"]["proven"] == 3
