# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of preflight for clusters with several control planes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.preflight import preflight_problems
from preflight_facts import facts
from test_preflight_problems import SETTINGS, reading

CA, OTHER = ["sha256:1"], ["sha256:2"]
NAMED = {"cluster_api_endpoint": "api.lab.internal:6443", "api_name": "api.lab.internal"}
STATE: dict[str, Any] = {
    "action": "finished",
    "reason": "",
    "advice": "",
    "api": "alive",
    "version": "v1.36.4",
    "texts": {},
    "daemonsets": [],
    "gpu_managers": [],
    "gpus_twice": {},
    "error": "",
}
REFUSED = {**STATE, "action": "refuse", "api": "refused", "reason": "its certificate is unknown", "advice": "Look."}


def machine(name: str, member: bool, ca: list[str] | None = None, **state: Any) -> dict[str, Any]:
    """Return the reading of a control plane."""
    number = 10 + int(name[-1])
    found = {**reading(name, number), "facts": facts(name, number)}
    if member:
        found["facts"]["cluster"] |= {"role": "control_plane", "begun": True, "finished": True, "ca_hashes": ca or CA}
        found["facts"]["control_plane"] = {**STATE, **state}
    return found


def problems(machines: list[dict[str, Any]], **settings: Any) -> list[dict[str, Any]]:
    hosts = {each["settings"]["node_name"]: each for each in machines}
    names = [name for name in hosts if name.startswith("cp")]
    found: list[dict[str, Any]] = preflight_problems(
        hosts, {**copy.deepcopy(SETTINGS), "control_plane": names, **settings}
    )
    return found


def kinds(*args: Any, **settings: Any) -> list[tuple[str, str]]:
    return [(problem["kind"], problem["host"]) for problem in problems(*args, **settings)]


@pytest.mark.parametrize("members", [{1, 2, 3}, {1}, {2}, {2, 3}, set()])
@pytest.mark.parametrize("endpoint", [NAMED, {"cluster_api_endpoint": "lb.example.org:6443"}])
def test_control_planes_join_a_cluster_with_a_name_or_a_load_balancer(
    members: set[int], endpoint: dict[str, str]
) -> None:
    machines = [machine(f"cp{number}", number in members) for number in (1, 2, 3)]
    assert problems(machines, **endpoint) == []


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({1}, ["192.168.7.11:6443, the address of cp1", "Leave only cp1", "gpulab.kubernetes.migrate_endpoint"]),
        # A new cluster, with cluster_api_endpoint.
        (set(), ["the address of cp1", "Remove cluster_api_endpoint", "load balancer"]),
    ],
)
def test_no_control_plane_joins_the_address_of_another_one(members: set[int], words: list[str]) -> None:
    found = problems([machine(f"cp{number}", number in members) for number in (1, 2, 3)])
    assert [problem["kind"] for problem in found] == ["endpoint_of_one_machine"]
    text = " ".join(str(value) for value in found[0].values())
    assert all(word in text for word in words), text


def test_clusters_that_nothing_joins_keep_an_address() -> None:
    assert problems([machine("cp1", True)]) == []
    assert problems([machine(f"cp{number}", True) for number in (1, 2, 3)]) == []


def test_a_control_plane_of_another_cluster_is_refused() -> None:
    machines = [machine("cp1", True), machine("cp2", True, OTHER), machine("cp3", False)]
    assert kinds(machines, **NAMED) == [("host_in_other_cluster", "cp2")]


def test_a_worker_does_not_become_a_control_plane() -> None:
    machines = [machine("cp1", True), machine("cp2", False), machine("cp3", False)]
    machines[1]["facts"]["cluster"] |= {"role": "worker", "begun": True, "finished": True, "ca_hashes": CA}
    found = problems(machines, **NAMED)
    assert [(each["kind"], each["host"]) for each in found] == [("host_in_other_cluster", "cp2")]
    assert "worker of this cluster" in found[0]["why"]


def test_each_control_plane_is_checked() -> None:
    machines = [machine("cp1", True), machine("cp2", True, **REFUSED), machine("cp3", True)]
    assert kinds(machines, **NAMED) == [("control_plane_refused", "cp2")]


def test_a_first_control_plane_without_data_is_not_lost_if_another_one_has_the_cluster() -> None:
    machines = [machine("cp1", False), machine("cp2", True), machine("cp3", True)]
    assert problems(machines, **NAMED, name="lab", kept={"kubeconfigs": ["my-admin.conf"]}) == []


@pytest.mark.parametrize("others", [True, False])
def test_a_dead_control_plane_may_be_left_out_if_another_one_is_read(others: bool) -> None:
    dead = {**machine("cp1", True), "facts": {}, "failure": {"unreachable": True, "msg": "x"}, "left_out": True}
    found = kinds([dead, machine("cp2", others), machine("cp3", others)], **NAMED)
    assert found == ([] if others else [("host_unreachable", "cp1")])
