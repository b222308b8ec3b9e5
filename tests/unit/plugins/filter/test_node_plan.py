# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.plan import node_plan

PACKAGES = {"containerd": ["packages"]}


def host(member: bool, pending: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """The facts of a host after the roles preflight and plan."""
    return {
        "preflight_host": {"cluster": {"finished": member}},
        "plan_pending": pending or {},
        "plan_serial": "2",
    }


BARE, DONE = host(False, PACKAGES), host(True)
CHANGED, INTERRUPTED = host(True, {"host": ["swap"]}), host(True, PACKAGES)
UNREAD: dict[str, Any] = {}


def planned(hosts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return node_plan(hosts, hosts, [name for name in hosts if name.startswith("cp")])


@pytest.mark.parametrize(
    ("hosts", "steps"),
    [
        ({"cp1": BARE, "gpu1": BARE}, {"cp1": "create", "gpu1": "join"}),
        ({"cp1": DONE, "gpu1": BARE}, {"cp1": "none", "gpu1": "join"}),
        ({"cp1": DONE, "gpu1": DONE}, {"cp1": "none", "gpu1": "none"}),
        ({"cp1": CHANGED, "gpu1": INTERRUPTED}, {"cp1": "change", "gpu1": "change"}),
        ({"cp1": UNREAD, "gpu1": BARE}, {"cp1": "skip", "gpu1": "join"}),
        # Only the first control plane of a new cluster creates it.
        ({"cp1": BARE, "cp2": BARE}, {"cp1": "create", "cp2": "join_control_plane"}),
        ({"cp1": BARE, "cp2": DONE}, {"cp1": "join_control_plane", "cp2": "none"}),
        # One that was not read may have the cluster: creating a second one would be worse than joining none.
        ({"cp1": BARE, "cp2": UNREAD}, {"cp1": "join_control_plane", "cp2": "skip"}),
    ],
)
def test_each_host_has_one_step(hosts: dict[str, dict[str, Any]], steps: dict[str, str]) -> None:
    found = planned(hosts)["hosts"]
    assert {name: node["step"] for name, node in found.items()} == steps
    assert all(bool(node["why"]) == (node["step"] != "none") for node in found.values())


def test_a_pending_change_is_named() -> None:
    node = planned({"cp1": host(True, {"host": ["swap"], "containerd": ["packages"]})})["hosts"]["cp1"]
    assert node == {"step": "change", "member": True, "interrupts": True, "why": "pending: host, containerd"}


@pytest.mark.parametrize("role", ["nvidia_driver", "containerd", "nvidia_container_toolkit"])
def test_what_pods_need_interrupts_them_when_it_changes(role: str) -> None:
    assert planned({"gpu1": host(True, {role: ["packages"]})})["hosts"]["gpu1"]["interrupts"]
    assert not planned({"gpu1": host(False, {role: ["packages"]})})["hosts"]["gpu1"]["interrupts"]


@pytest.mark.parametrize("role", ["host", "kubeadm", "gpu_sharing"])
def test_other_changes_interrupt_no_pods(role: str) -> None:
    assert not planned({"gpu1": host(True, {role: ["packages"]})})["hosts"]["gpu1"]["interrupts"]


@pytest.mark.parametrize(
    ("hosts", "exists", "api_host", "joining"),
    [
        ({"cp1": BARE, "gpu1": BARE}, False, "cp1", ["gpu1"]),
        ({"cp1": DONE, "gpu1": BARE, "gpu2": DONE}, True, "cp1", ["gpu1"]),
        ({"cp1": UNREAD, "gpu1": DONE}, True, "cp1", []),
        ({"cp1": BARE, "cp2": DONE}, True, "cp2", ["cp1"]),
        ({"cp1": UNREAD, "cp2": DONE}, True, "cp2", []),
        ({"gpu1": DONE}, False, "", []),
        ({}, False, "", []),
    ],
)
def test_the_cluster_is_reached_through_a_control_plane_that_it_has(
    hosts: dict[str, dict[str, Any]], exists: bool, api_host: str, joining: list[str]
) -> None:
    found = planned(hosts)["cluster"]
    assert (found["exists"], found["api_host"], found["joining"]) == (exists, api_host, joining)
    assert found["control_planes"] == [name for name in hosts if name.startswith("cp")]


@pytest.mark.parametrize(
    ("hosts", "strategy", "serial"),
    [
        ([], "linear", "100%"),
        ([UNREAD], "linear", "100%"),
        ([DONE, DONE], "linear", "100%"),
        ([BARE, BARE], "free", "100%"),
        ([DONE, BARE, UNREAD], "free", "100%"),
        ([BARE, CHANGED], "linear", "100%"),
        ([BARE, CHANGED, INTERRUPTED], "linear", "2"),
        ([INTERRUPTED], "linear", "2"),
    ],
)
def test_hosts_wait_for_each_other_where_nodes_are_in_use(
    hosts: list[dict[str, Any]], strategy: str, serial: str
) -> None:
    cluster = planned({f"gpu{number}": variables for number, variables in enumerate(hosts)})["cluster"]
    assert (cluster["strategy"], cluster["serial"]) == (f"ansible.builtin.{strategy}", serial)
