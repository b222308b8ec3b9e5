"""A host that presents itself as Ubuntu 24.04, two networks per host, and the other driver branch."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.cluster import Cluster
from support.hosts import ROOT, Host, Inventory
from support.lab import Lab, running
from support.play import play

SPEC = ROOT / "lab" / "specs" / "shapes.yml"
DRIVER = "595.91.07"
CHOICE = ["--extra-vars", f"nvidia_driver_version={DRIVER}"]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running("shapes", SPEC) as started:
        play(started.path, *CHOICE).expect_success()
        yield started


@pytest.fixture(scope="module")
def inventory(lab: Lab) -> Inventory:
    return lab.inventory()


@pytest.fixture(scope="module")
def cluster(inventory: Inventory) -> Cluster:
    return Cluster.of(inventory)


def default_route_address(host: Host) -> str:
    route = host.run("ip -4 -json route get 192.0.2.1")
    return str(json.loads(route)[0]["prefsrc"])


def addresses(host: Host) -> set[str]:
    links = json.loads(host.run("ip -4 -json address show scope global"))
    return {
        a["local"] for link in links if not link["ifname"].startswith(("cni", "flannel")) for a in link["addr_info"]
    }


def test_the_hosts_have_two_networks(inventory: Inventory) -> None:
    for host in inventory.hosts.values():
        assert len(addresses(host)) == 2


def test_the_address_of_the_default_route_is_used_everywhere(inventory: Inventory, cluster: Cluster) -> None:
    nodes = {node["metadata"]["name"]: node for node in cluster.get("nodes")["items"]}
    for name, host in inventory.hosts.items():
        wanted = default_route_address(host)
        node = nodes[name]
        assert [a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"] == [wanted]
        assert node["metadata"]["annotations"]["flannel.alpha.coreos.com/public-ip"] == wanted
    address = default_route_address(inventory.control_plane)
    assert "server: https://api." in cluster.kubectl("config", "view", "--minify")
    for host in inventory.hosts.values():
        proxy = host.run("cat /etc/gpulab/api-endpoint/haproxy.cfg || true")
        assert (f" {address}:6443 check" in proxy) == (host != inventory.control_plane)
    pods = cluster.get("pods", "--namespace", "kube-system", "--selector", "component=kube-apiserver")["items"]
    assert f"--advertise-address={address}" in pods[0]["spec"]["containers"][0]["command"]


def test_packages_have_ubuntus_names_and_versions(inventory: Inventory) -> None:
    shaped = [host for host in inventory.hosts.values() if "ID=ubuntu" in host.run("cat /etc/os-release").split()]
    assert shaped
    for host in shaped:
        assert "~ubuntu.24.04~noble" in host.run("dpkg-query -W -f '${Version}' containerd.io")
        assert "ubuntu1" in host.run("dpkg-query -W -f '${Version}' libnvidia-compute")
        sources = host.run("cat /etc/apt/sources.list.d/*.sources")
        assert "/linux/ubuntu" in sources
        assert "/ubuntu2404/x86_64" in sources


def test_the_driver_of_unversioned_packages_is_loaded(inventory: Inventory) -> None:
    for name in inventory.expected_gpus():
        host = inventory.hosts[name]
        assert DRIVER in host.run("cat /proc/driver/nvidia/version")
        assert "nvidia-driver-pinning" in host.run("dpkg-query -W -f '${Package}\\n'")


def test_every_gpu_is_verified_with_that_driver(lab: Lab, inventory: Inventory, cluster: Cluster) -> None:
    report = json.loads(lab.report.read_text())
    assert report["totals"]["proven"] == sum(inventory.expected_gpus().values())
    assert cluster.allocatable_gpus() == inventory.expected_gpus()
    labels = {n["metadata"]["name"]: n["metadata"]["labels"] for n in cluster.get("nodes")["items"]}
    for name, count in inventory.expected_gpus().items():
        assert labels[name]["nvidia.com/gpu.count"] == str(count)
        assert labels[name]["nvidia.com/cuda.driver-version.full"] == DRIVER


def test_a_second_run_changes_nothing(lab: Lab) -> None:
    play(lab.path, *CHOICE).expect_unchanged()
