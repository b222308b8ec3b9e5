# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that claims another host's node, in each module that changes nodes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeNode

RECORD = "gpulab.io/inventory-host"
Run = Callable[..., dict[str, Any]]


def claim(node: str, host: str, *addresses: str, **more: Any) -> dict[str, Any]:
    return {"node": node, "host": host, "addresses": list(addresses), "control_plane": False, "joined": False, **more}


@pytest.fixture
def state() -> FakeCluster:
    victim = FakeNode("victim", ["GPU-0"], address="192.0.2.9")
    return FakeCluster(FakeNode("cp1", address="192.0.2.1"), FakeNode("gpu1", address="192.0.2.2"), victim)


@pytest.fixture
def call(run_module: Run, tmp_path: Path, state: FakeCluster) -> Iterator[Run]:
    with state.serve(tmp_path) as kubeconfig:
        yield lambda name, check=False, **args: run_module(name, {"kubeconfig": str(kubeconfig), **args}, check=check)


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("node_maintenance", {"state": "begun"}),
    ("node_maintenance", {"state": "failed", "failure": "x"}),
    ("node_maintenance", {"state": "ended", "purpose": "disruption"}),
    ("gpu_isolation", {"reason": "Xid 79"}),
    ("gpu_isolation", {"state": "returned"}),
    ("gpu_sharing", {"configuration": "mps"}),
]


@pytest.mark.parametrize(("module", "arguments"), CHANGES)
@pytest.mark.parametrize("check", [False, True])
def test_no_module_changes_the_node_of_another_host(
    call: Run, state: FakeCluster, module: str, arguments: dict[str, Any], check: bool
) -> None:
    before = copy.deepcopy(state.nodes)
    result = call(module, check, node="victim", identity=claim("victim", "gpu1", "192.0.2.2"), **arguments)
    assert result["failed"] and "host gpu1 claims to be node victim: " in result["msg"]
    assert state.nodes == before
    own = call(module, True, node="victim", identity=claim("victim", "v", "192.0.2.9"), **arguments)
    assert not own.get("failed"), own


def test_pools_of_all_nodes_are_refused_if_one_host_claims_another_hosts_node(call: Run, state: FakeCluster) -> None:
    before = copy.deepcopy(state.nodes)
    nodes = [
        {"name": "cp1", "labels": {"a": "b"}, "identity": claim("cp1", "cp", "192.0.2.1")},
        {"name": "victim", "labels": {"a": "b"}, "identity": claim("victim", "gpu1", "192.0.2.2")},
    ]
    result = call("node_pools", nodes=nodes)
    assert result["failed"] and "host gpu1 claims to be node victim: " in result["msg"]
    nodes[1]["identity"] = claim("victim", "v", "192.0.2.9")
    result = call("node_pools", nodes=[*nodes, {"name": "victim", "identity": claim("victim", "gpu1")}])
    assert result["failed"] and "the hosts gpu1 and v claim to be node victim" in result["msg"]
    assert state.nodes == before


def test_pools_record_once_which_host_a_node_belongs_to(call: Run, state: FakeCluster) -> None:
    behind_nat = {"name": "gpu1", "identity": claim("gpu1", "g1", "198.51.100.2", joined=True)}
    predicted = call("node_pools", True, nodes=[behind_nat])
    assert predicted["changes"]["gpu1"]["after"]["inventory_host"] == "g1"
    assert call("node_pools", nodes=[behind_nat])["changes"] == predicted["changes"]
    assert state.nodes["gpu1"].body()["metadata"]["annotations"] == {RECORD: "g1"}
    later = {"name": "gpu1", "identity": claim("gpu1", "g1", "198.51.100.2")}
    assert not call("node_pools", nodes=[later])["changed"]
    # The record decides, whichever host has the address now.
    other = {"name": "gpu1", "identity": claim("gpu1", "other", "192.0.2.2")}
    assert "belongs to the inventory host 'g1'" in call("node_pools", nodes=[other])["msg"]


def test_a_node_that_is_listed_twice_is_refused(call: Run) -> None:
    known = {"name": "gpu1", "identity": claim("gpu1", "g1", "192.0.2.2")}
    for first in ({"name": "gpu1", "labels": {"a": "b"}}, known):
        result = call("node_pools", nodes=[first, {"name": "gpu1"}])
        assert result["failed"] and "node gpu1 is listed more than once" in result["msg"]


def test_all_hosts_of_a_run_are_checked_together(call: Run) -> None:
    good = [claim("cp1", "cp", "192.0.2.1"), claim("gpu1", "g1", "192.0.2.2"), claim("new", "n1")]
    assert not call("node_identity", identities=good).get("failed")
    result = call("node_identity", identities=[*good, claim("victim", "x", "192.0.2.3"), claim("cp1", "y")])
    assert result["failed"]
    assert "host x claims to be node victim: " in result["msg"] and "hosts cp and y claim" in result["msg"]
