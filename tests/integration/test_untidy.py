"""Machines with a history: differences that site.yml handles, and those that it refuses with a reason."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster
from support.hosts import Inventory
from support.lab import Lab, running
from support.play import Run, play

from lab.depot import signing
from upstream.lock import load

SPECS = Path(__file__).parent / "specs"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running("untidy", SPECS / "untidy.yml") as started:
        yield started


@pytest.fixture(scope="module")
def inventory(lab: Lab) -> Inventory:
    return lab.inventory()


def test_the_machines_are_untidy(inventory: Inventory) -> None:
    cp1, gpu1, gpu2 = (inventory.hosts[name] for name in ("cp1", "gpu1", "gpu2"))
    assert "unattended-upgr" in gpu2.attempt("apt-get install --yes tree").stderr
    assert "127.0.0.53" in cp1.run("cat /etc/resolv.conf")
    assert cp1.run("systemctl is-active systemd-resolved").strip() == "active"
    assert "127.0.0.53" not in cp1.run("cat /run/systemd/resolve/resolv.conf")
    assert "127.0.0.53" not in gpu1.run("cat /etc/resolv.conf")
    assert gpu1.run("hostname").strip() == "GPU1.Example.COM"
    assert gpu1.attempt("cp /bin/true /tmp/ && /tmp/true").returncode == 126
    for package in ("ca-certificates", "gnupg", "python3-apt"):
        assert "ii" not in gpu1.attempt(f"dpkg-query --show --showformat='${{db:Status-Abbrev}}' {package}").stdout
    old = gpu1.run("find /var/lib/apt/lists -name '*_Packages' ! -newermt 2023-01-01")
    assert old
    for host in (cp1, gpu2):
        assert host.run("find /var/lib/apt/lists -name '*_Packages'") == ""
    assert "dev eth0" in gpu2.run("ip -4 route show exact default")
    assert "dev eth1" in cp1.run("ip -4 route show exact default")


@pytest.fixture(scope="module")
def first(lab: Lab) -> Run:
    return play(lab.path).expect_success()


@pytest.fixture
def cluster(first: Run, inventory: Inventory) -> Cluster:
    return Cluster.of(inventory)


def test_every_gpu_is_verified_by_a_pod(lab: Lab, inventory: Inventory, cluster: Cluster) -> None:
    expected = inventory.expected_gpus()
    assert json.loads(lab.report.read_text())["totals"]["proven"] == sum(expected.values())
    assert sorted(cluster.allocatable_gpus().values()) == sorted(expected.values())


def test_nodes_have_lower_case_names_and_addresses_of_the_clusters_network(
    inventory: Inventory, cluster: Cluster
) -> None:
    nodes = {node["metadata"]["name"]: node["status"]["addresses"] for node in cluster.get("nodes")["items"]}
    assert set(nodes) == {"cp1", "gpu1.example.com", "gpu2"}
    for name, host in {"cp1": "cp1", "gpu1.example.com": "gpu1", "gpu2": "gpu2"}.items():
        internal = [entry["address"] for entry in nodes[name] if entry["type"] == "InternalIP"]
        assert internal == [inventory.hosts[host].variables["ansible_host"]]


def test_pods_get_the_real_name_servers_of_their_own_host(inventory: Inventory, cluster: Cluster) -> None:
    """The control plane's kubelet uses a resolv.conf that no worker has."""
    wanted = {
        "cp1": "/run/systemd/resolve/resolv.conf",
        "gpu1.example.com": "/etc/resolv.conf",
        "gpu2": "/etc/resolv.conf",
    }
    for node, path in wanted.items():
        settings = json.loads(cluster.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/configz"))
        assert settings["kubeletconfig"]["resolvConf"] == path


def test_kernel_headers_are_installed_if_apt_has_them(inventory: Inventory, first: Run) -> None:
    """No package installed the kernel of gpu2, so headers may not exist for its modules."""
    query = 'dpkg-query --show "linux-headers-$(uname -r)"'
    inventory.hosts["gpu1"].run(query)
    assert inventory.hosts["gpu2"].attempt(query).returncode != 0


def test_a_second_run_changes_nothing(lab: Lab, first: Run) -> None:
    play(lab.path).expect_unchanged()


def test_a_key_that_expires_tomorrow_is_renewed(lab: Lab, inventory: Inventory, first: Run) -> None:
    """The host has the key of an earlier run; the repository has the renewed key."""
    key, path = load().repositories["kubernetes-v1.36"].key, "/etc/apt/keyrings/gpulab-kubernetes.asc"
    doing = "making a key that expires tomorrow"
    with signing.loaded(key) as signer:
        signer.gpg("--quick-set-expire", signing.fingerprint(key), "1d", doing=doing)
        old = signer.gpg("--armor", "--export", doing=doing)
    gpu2 = inventory.hosts["gpu2"]
    gpu2.run(f"printf %s {shlex.quote(old)} > {path}")
    run = play(lab.path).expect_success()
    assert {host for host, _task in run.changed()} == {"gpu2"} and len(run.changed()) == 1
    assert gpu2.run(f"cat {path}").strip() == signing.public(key).strip()


@pytest.fixture(scope="module")
def refused() -> Iterator[str]:
    with running("untidy-refused", SPECS / "untidy-refused.yml") as lab:
        run = play(lab.path)
        assert run.status != 0
        assert run.changed() == set()
        yield run.failures()


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("cp1", ["docker.io", "containerd"]),
        ("gpu1", ["docker.list"]),
        ("gpu1", ["cuda-debian12-x86_64.list"]),
        ("gpu2", ["there is no program ip", "apt-get install iproute2"]),
    ],
)
def test_decisions_for_a_person_are_reported_before_anything_changes(refused: str, host: str, words: list[str]) -> None:
    for word in (host, *words):
        assert word in refused, refused
