# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.preflight import host_needs

NEEDS = {
    "node": {"ports": ["10250/tcp"], "reachable_ports": ["10250/tcp"], "kernel_modules": ["overlay"]},
    "control_plane": {"ports": ["6443/tcp"], "reachable_ports": ["6443/tcp"]},
    "control_planes": {"reachable_ports": ["2379/tcp", "2380/tcp"]},
    "worker": {"ports": ["6443/tcp"]},
    "networks": {"flannel": {"vxlan": {"reachable_ports": ["8472/udp"], "kernel_modules": ["vxlan"]}}},
}


@pytest.mark.parametrize(
    ("host", "network", "backend", "ports", "reachable", "modules"),
    [
        ("gpu1", "external", "vxlan", ["10250", "6443"], ["10250"], ["overlay"]),
        ("gpu1", "flannel", "host-gw", ["10250", "6443"], ["10250"], ["overlay"]),
        ("gpu1", "flannel", "vxlan", ["10250", "6443"], ["10250", "8472"], ["overlay", "vxlan"]),
        ("cp1", "external", "vxlan", ["10250", "6443"], ["10250", "6443"], ["overlay"]),
        ("cp1", "flannel", "vxlan", ["10250", "6443"], ["10250", "6443", "8472"], ["overlay", "vxlan"]),
    ],
)
def test_required_ports_and_modules_follow_from_role_and_network(
    host: str, network: str, backend: str, ports: list[str], reachable: list[str], modules: list[str]
) -> None:
    found = host_needs(NEEDS, host, ["cp1"], network, backend)
    assert [each.split("/")[0] for each in found["ports"]] == ports
    assert [each.split("/")[0] for each in found["reachable_ports"]] == reachable
    assert found["kernel_modules"] == modules


@pytest.mark.parametrize(("host", "reachable"), [("cp2", ["10250", "6443", "2379", "2380"]), ("gpu1", ["10250"])])
def test_several_control_planes_reach_the_etcd_of_each_other(host: str, reachable: list[str]) -> None:
    found = host_needs(NEEDS, host, ["cp1", "cp2", "cp3"], "external", "")
    assert [each.split("/")[0] for each in found["reachable_ports"]] == reachable
