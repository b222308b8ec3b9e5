"""Invalid input is reported completely in one run, before anything changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hosts import Host, Inventory
from support.lab import Lab, running
from support.play import refused, variables
from support.state import differences, snapshots

SPEC = Path(__file__).parent / "specs" / "one-worker.yml"
LISTEN = "setsid python3 -m http.server --bind 0.0.0.0 {port} >/dev/null 2>&1 </dev/null & echo $!"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running("wrong-input", SPEC) as started:
        yield started


@pytest.fixture(scope="module")
def inventory(lab: Lab) -> Inventory:
    return lab.inventory()


@pytest.fixture
def unchanged(inventory: Inventory) -> Iterator[None]:
    """Assert that the test has not changed the hosts."""
    before = snapshots(inventory)
    yield
    assert differences(before, snapshots(inventory)) == {}


@pytest.mark.usefixtures("unchanged")
def test_invalid_settings_are_all_named_together(lab: Lab) -> None:
    words = refused(
        lab.path,
        *variables(
            cluster_kubernetes_version="1.99.0",
            cluster_pod_network="10.96.0.0/16",
            cluster_expected_gpus=7,
            containerd_version="9.9.9",
        ),
    )
    for expected in ("1.99.0", "1.36.4", "10.96.0.0/16", "10.96.0.0/12", "7", "9.9.9", "2.3.6"):
        assert expected in words


@pytest.mark.usefixtures("unchanged")
def test_a_pod_network_that_contains_the_hosts_is_refused(lab: Lab, inventory: Inventory) -> None:
    address = inventory.control_plane.variables["ansible_host"]
    network = ".".join(address.split(".")[:2]) + ".0.0/16"
    words = refused(lab.path, *variables(cluster_pod_network=network))
    assert network in words
    assert address in words


@pytest.mark.usefixtures("unchanged")
def test_an_inventory_without_a_control_plane_is_refused(lab: Lab) -> None:
    words = refused(lab.edited(r"^\[control_plane\]$", "[somewhere_else]"))
    assert "control_plane" in words


@pytest.mark.usefixtures("unchanged")
def test_two_control_planes_are_refused(lab: Lab) -> None:
    words = refused(lab.edited(r"^\[workers\]$", "gpu1\n\n[workers]"))
    assert "cp1" in words
    assert "gpu1" in words
    assert "control_plane" in words


@pytest.mark.usefixtures("unchanged")
def test_an_unreachable_host_is_named_with_the_problems_of_the_others(lab: Lab, inventory: Inventory) -> None:
    free = inventory.control_plane.variables["ansible_host"].rpartition(".")[0] + ".249"
    path = lab.edited(r"^\[workers\]$", f"[workers]\ngone ansible_host={free}")
    words = refused(path, *variables(cluster_expected_gpus=7))
    assert "gone" in words
    assert "7" in words


def test_problems_of_all_hosts_are_named_together(lab: Lab, inventory: Inventory) -> None:
    cp1, gpu1 = inventory.hosts["cp1"], inventory.hosts["gpu1"]
    busy = cp1.run(LISTEN.format(port=6443)).strip()
    gpu1.run("hostname cp1")
    gpu1.run("cp -a /etc/os-release /root/os-release && printf 'ID=fedora\\nVERSION_ID=44\\n' > /etc/os-release.new")
    gpu1.run("rm /etc/os-release && mv /etc/os-release.new /etc/os-release")
    try:
        words = refused(lab.path)
    finally:
        cp1.run(f"kill {busy}")
        gpu1.run("hostname gpu1; rm /etc/os-release; cp -a /root/os-release /etc/os-release; rm /root/os-release")
    assert "6443" in words
    assert "edora" in words
    assert "Hosts cp1, gpu1 have the same node name cp1" in words


def test_a_user_without_sudo_is_named(lab: Lab, inventory: Inventory) -> None:
    gpu1: Host = inventory.hosts["gpu1"]
    gpu1.run("useradd --create-home plain && cp -r ~gpulab/.ssh ~plain/ && chown -R plain: ~plain/.ssh")
    try:
        words = refused(lab.edited(r"^(gpu1 .*)$", r"\1 ansible_user=plain"))
    finally:
        # Ansible's connection is still open, so the user counts as logged in.
        gpu1.run("userdel --force --remove plain 2>/dev/null; ! id plain 2>/dev/null")
    assert "gpu1" in words
    assert "sudo" in words


def test_a_driver_of_another_origin_is_named_with_the_setting_that_replaces_it(lab: Lab, inventory: Inventory) -> None:
    gpu1 = inventory.hosts["gpu1"]
    gpu1.run(
        "mkdir -p /usr/bin && printf '#!/bin/sh\\n' > /usr/bin/nvidia-uninstall && chmod 755 /usr/bin/nvidia-uninstall"
    )
    try:
        words = refused(lab.path)
    finally:
        gpu1.run("rm /usr/bin/nvidia-uninstall")
    assert "gpu1" in words
    assert "nvidia_driver_replace_foreign" in words
    # The driver is not loaded, so keeping it is not offered.
    assert "preinstalled" not in words


def test_an_apt_source_with_the_same_address_and_another_name_is_named(lab: Lab, inventory: Inventory) -> None:
    cp1 = inventory.control_plane
    address = f"{cp1.variables['kubeadm_repository_url']}/v1.36/deb/"
    source = "/etc/apt/sources.list.d/mine.list"
    cp1.run(f"echo 'deb [signed-by=/etc/apt/keyrings/mine.gpg] {address} /' > {source}")
    try:
        words = refused(lab.path)
    finally:
        cp1.run(f"rm {source}")
    assert source in words
