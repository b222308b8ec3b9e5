"""A cluster outlives the release that created it: changed defaults are refused, and nothing changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lab import Lab, running
from support.play import play, refused, variables
from support.state import differences, services, snapshots

SPEC = Path(__file__).parent / "specs" / "one-worker.yml"
# Possible defaults of a later release: variable -> its new value, and what the refusal must advise or name.
RAISED = {
    "cluster_pod_network": ("10.200.0.0/16", "Set cluster_pod_network to 10.244.0.0/16"),
    "cluster_service_network": ("10.112.0.0/16", "Set cluster_service_network to 10.96.0.0/12"),
    "cluster_dns_domain": ("cluster.example", "Set cluster_dns_domain to cluster.local"),
    "flannel_backend": ("host-gw", "Set flannel_backend to vxlan"),
    "cluster_gpu_manager": ("gpu_operator", "Set cluster_gpu_manager to device_plugin"),
    "kubeadm_kube_proxy_configuration": ({"mode": "nftables"}, "kubeadm_kube_proxy_configuration sets mode"),
    "kubeadm_cluster_configuration": ({"clusterName": "other"}, "kubeadm_cluster_configuration sets clusterName"),
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running("second-release", SPEC) as started:
        play(started.path).expect_success()
        yield started


@pytest.fixture
def untouched(lab: Lab) -> Iterator[None]:
    """Assert that nothing on the hosts has changed and nothing was restarted."""
    inventory = lab.inventory()
    before = snapshots(inventory), services(inventory)
    yield
    assert differences(before[0], snapshots(inventory)) == {}
    assert services(inventory) == before[1]


@pytest.mark.usefixtures("untouched")
def test_every_changed_default_is_refused_with_advice_that_keeps_the_present_value(lab: Lab) -> None:
    words = refused(lab.path, *variables(**{name: value for name, (value, _keep) in RAISED.items()}))
    assert {name: keep for name, (_value, keep) in RAISED.items() if keep not in words} == {}


@pytest.mark.usefixtures("untouched")
def test_a_run_limited_to_a_worker_is_refused_too(lab: Lab) -> None:
    words = refused(lab.path, "--limit", "gpu1", *variables(flannel_backend="host-gw"))
    assert "flannel_backend: vxlan" in words


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("version", "limit"), [("1.37.2", []), ("1.35.8", []), ("1.35.8", ["--limit", "gpu1"])])
def test_the_cluster_keeps_its_version(lab: Lab, version: str, limit: list[str]) -> None:
    run = play(lab.path, *limit, *variables(cluster_kubernetes_version=version)).expect_unchanged()
    assert f"The cluster runs Kubernetes 1.36.5, but cluster_kubernetes_version is {version}" in run.output


@pytest.mark.usefixtures("untouched")
def test_a_node_keeps_its_name(lab: Lab) -> None:
    words = refused(lab.edited(r"^gpu1 ", "gpu1 cluster_node_name=gpu-a "))
    assert "cluster_node_name: gpu1" in words


@pytest.mark.usefixtures("untouched")
def test_other_playbooks_that_change_the_cluster_are_refused_too(lab: Lab) -> None:
    for playbook in ("playbooks/share_gpus.yml", "playbooks/upgrade_driver.yml"):
        assert "flannel_backend: vxlan" in refused(lab.path, *variables(flannel_backend="host-gw"), playbook=playbook)


LEASE = """
kubectl --kubeconfig /etc/kubernetes/admin.conf apply -f - <<END
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: gpulab-kubernetes, namespace: kube-system, annotations: {gpulab.io/purpose: Make the cluster}}
spec: {holderIdentity: bob at the desk, leaseDurationSeconds: 900, renewTime: "$(date -u +%Y-%m-%dT%H:%M:%S.000000Z)"}
END
"""


def test_a_run_is_refused_while_someone_else_changes_the_cluster(lab: Lab) -> None:
    hosts = lab.inventory().hosts
    hosts["cp1"].run(LEASE)
    # A run without changes is not refused.
    play(lab.path).expect_unchanged()
    hosts["gpu1"].run("rm /etc/sysctl.d/95-gpulab.conf")
    run = play(lab.path)
    assert run.status != 0 and run.changed() == set()
    assert "bob at the desk has held it since" in run.failures()
    broken = '{"cluster_lease_break": "bob at the desk"}'
    assert f"-e '{broken}'" in run.failures()
    play(lab.path, "-e", broken).expect_success()
    hosts["gpu1"].run("test -f /etc/sysctl.d/95-gpulab.conf")
    leases = "kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get leases -o name"
    assert "gpulab-kubernetes" not in hosts["cp1"].run(leases)


def test_a_run_of_the_same_release_changes_nothing(lab: Lab) -> None:
    play(lab.path, *variables(kubeadm_kube_proxy_configuration={})).expect_unchanged()
    assert json.loads(lab.report.read_text())["totals"]["proven"] == 2
