# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.plan import api_host, node_plan

PACKAGES = {"containerd": ["packages"]}


def host(member: bool, pending: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """Return the facts of a host after the roles preflight and plan."""
    return {
        "preflight_host": {"cluster": {"finished": member}},
        "plan_pending": pending or {},
        "plan_serial": "2",
    }


BARE, DONE = host(False, PACKAGES), host(True)
CHANGED, INTERRUPTED = host(True, {"host": ["swap"]}), host(True, PACKAGES)
UNREAD: dict[str, Any] = {}


def control_plane(api: str, member: bool = True) -> dict[str, Any]:
    found = host(member)
    found["preflight_host"]["control_plane"] = {"api": api}
    return found


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
        # An unread host may have the cluster, and failing to join is better than creating a second cluster.
        ({"cp1": BARE, "cp2": UNREAD}, {"cp1": "join_control_plane", "cp2": "skip"}),
    ],
)
def test_each_host_has_one_step(hosts: dict[str, dict[str, Any]], steps: dict[str, str]) -> None:
    found = planned(hosts)["hosts"]
    assert {name: node["step"] for name, node in found.items()} == steps
    assert all(bool(node["why"]) == (node["step"] != "none") for node in found.values())


def test_pending_changes_are_named() -> None:
    node = planned({"cp1": host(True, {"host": ["swap"], "containerd": ["packages"]})})["hosts"]["cp1"]
    assert node == {"step": "change", "member": True, "interrupts": True, "why": "pending: host, containerd"}


ENTRY = {"since": "2026-11-27T10:00:00Z", "change": "a restart", "users": ["team/train"], "pending": "containerd: x"}


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (json.dumps({"disruption": ENTRY}), "a restart has been deferred since 2026-11-27T10:00:00Z"),
        ("{", "the record of its deferred changes can't be read"),
    ],
)
@pytest.mark.parametrize(("pending", "step"), [(PACKAGES, "change"), ({}, "none")])
def test_deferred_change_is_shown_with_its_start_time(
    record: str, told: str, pending: dict[str, list[str]], step: str
) -> None:
    variables = host(True, pending)
    variables["preflight_host"]["deferred"] = record
    found = planned({"cp1": DONE, "gpu1": variables})
    node = found["hosts"]["gpu1"]
    assert node["step"] == step and told in node["why"] and node["why"].startswith("pending: " if pending else told)
    assert list(found["deferred"]) == ["gpu1"] and told in found["deferred"]["gpu1"][0]


@pytest.mark.parametrize("role", ["nvidia_driver", "containerd", "nvidia_container_toolkit"])
def test_changes_of_driver_or_runtime_interrupt_pods_of_members(role: str) -> None:
    assert planned({"gpu1": host(True, {role: ["packages"]})})["hosts"]["gpu1"]["interrupts"]
    assert not planned({"gpu1": host(False, {role: ["packages"]})})["hosts"]["gpu1"]["interrupts"]


@pytest.mark.parametrize("role", ["host", "kubeadm", "gpu_sharing"])
def test_other_changes_interrupt_no_pods(role: str) -> None:
    assert not planned({"gpu1": host(True, {role: ["packages"]})})["hosts"]["gpu1"]["interrupts"]


@pytest.mark.parametrize(
    ("hosts", "exists", "api_host_name", "joining"),
    [
        ({"cp1": BARE, "gpu1": BARE}, False, "cp1", ["gpu1"]),
        ({"cp1": DONE, "gpu1": BARE, "gpu2": DONE}, True, "cp1", ["gpu1"]),
        ({"cp1": UNREAD, "gpu1": DONE}, True, "cp1", []),
        ({"cp1": BARE, "cp2": DONE}, True, "cp2", ["cp1"]),
        ({"cp1": UNREAD, "cp2": DONE}, True, "cp2", []),
        # One that answers is better than one that does not.
        ({"cp1": control_plane("silent"), "cp2": control_plane("alive")}, True, "cp2", []),
        ({"cp1": control_plane("silent"), "cp2": control_plane("refused")}, True, "cp1", []),
        ({"cp1": BARE, "cp2": UNREAD, "cp3": control_plane("silent")}, True, "cp3", ["cp1"]),
        ({"gpu1": DONE}, False, "", []),
        ({}, False, "", []),
    ],
)
def test_api_host_is_an_existing_control_plane(
    hosts: dict[str, dict[str, Any]], exists: bool, api_host_name: str, joining: list[str]
) -> None:
    found = planned(hosts)["cluster"]
    joins = found["joining_workers"] + found["joining_control_planes"]
    assert (found["exists"], found["api_host"], joins) == (exists, api_host_name, joining)
    names = [name for name in hosts if name.startswith("cp")]
    assert found["control_planes"] == names
    # Before the plan, roles choose it by the same rule.
    assert api_host(names, hosts) == api_host_name


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
def test_hosts_are_changed_in_batches_if_nodes_are_in_use(
    hosts: list[dict[str, Any]], strategy: str, serial: str
) -> None:
    cluster = planned({f"gpu{number}": variables for number, variables in enumerate(hosts)})["cluster"]
    assert (cluster["strategy"], cluster["serial"]) == (f"ansible.builtin.{strategy}", serial)
