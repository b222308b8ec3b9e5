# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.identity import (
    Identity,
    check,
    problem,
    problems,
    read,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.node_list import RECORD
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from hypothesis import given
from hypothesis import strategies as some

Json = dict[str, Any]
CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}


def node(*addresses: str, record: str | None = None, labels: Json | None = None, name: str = "victim") -> Json:
    kinds = [{"type": "Hostname", "address": "192.0.2.1"}, {"type": "ExternalIP", "address": "203.0.113.9"}]
    kinds += [{"type": "InternalIP", "address": address} for address in addresses]
    annotations = {} if record is None else {RECORD: record}
    metadata = {"name": name, "annotations": annotations, "labels": labels or {}}
    return {"metadata": metadata, "status": {"addresses": kinds}}


@pytest.mark.parametrize(
    ("found", "claim", "words"),
    [
        # The record takes precedence.
        (node("192.0.2.9", record="h1"), {}, ""),
        (node("192.0.2.1", record="h2"), {"addresses": ("192.0.2.1",)}, "belongs to the inventory host 'h2'"),
        (node(record="h2"), {"joined": True}, "belongs to the inventory host 'h2'"),
        (node(record="h2", labels=CONTROL_PLANE), {"control_plane": True}, "belongs to the inventory host 'h2'"),
        (node(record=""), {"joined": True}, "belongs to the inventory host ''"),
        # Without a record, an address from the inventory, in any notation.
        (node("192.0.2.1"), {"addresses": ("192.0.2.1",)}, ""),
        (node("192.0.2.1", "2001:db8::1"), {"addresses": ("2001:DB8:0:0::1",)}, ""),
        (
            node("192.0.2.9"),
            {"addresses": ("192.0.2.1",)},
            "has the address 192.0.2.9, but the inventory gives h1 the ",
        ),
        (node("192.0.2.9"), {}, "gives h1 no address"),
        (node(), {}, "has the address (none)"),
        # Names and external addresses don't count: a host or a cloud provider sets them.
        (node(), {"addresses": ("192.0.2.1", "203.0.113.9")}, "has the address (none)"),
        (node("gpu1"), {"addresses": ("gpu1",)}, "has the address gpu1"),
        (node(""), {"addresses": ("",)}, "cluster_node_address of h1"),
        # The run uses this host's kubeconfig, and the node has a label that no kubelet can set.
        (node("10.0.0.1", labels=CONTROL_PLANE), {"control_plane": True, "addresses": ("192.0.2.1",)}, ""),
        (node("10.0.0.1"), {"control_plane": True}, "has the address 10.0.0.1"),
        (node("10.0.0.1", labels=CONTROL_PLANE), {}, "has the address 10.0.0.1"),
        # Behind NAT, directly after the host has joined.
        (node("10.0.0.1"), {"joined": True}, ""),
    ],
)
def test_a_host_may_only_change_its_own_node(found: Json, claim: Json, words: str) -> None:
    told = problem(found, Identity("victim", "h1", **claim))
    assert words in told if words else told == ""
    values = {"node": "victim", "host": "h1", **claim}
    if words:
        with pytest.raises(DomainError, match=r"Error while checking which host .*nothing was changed") as error:
            check(found, values)
        assert "host h1 claims to be node victim: " in str(error.value)
    else:
        check(found, values)


def test_the_error_has_a_remedy() -> None:
    told = problem(node(record="old"), Identity("victim", "h1"))
    assert "kubectl annotate node victim gpulab.io/inventory-host-" in told and "hostnamectl set-hostname" in told
    told = problem(node("10.0.0.1"), Identity("victim", "h1", ("192.0.2.1",)))
    assert "set cluster_node_address of h1 to the node's address in the inventory" in told


def test_two_hosts_that_claim_one_node_are_refused_with_their_names() -> None:
    nodes = {"victim": node("192.0.2.1", record="h1")}
    claims = [Identity("victim", "h1", ("192.0.2.1",)), Identity("b", "h3"), Identity("victim", "h2")]
    [told] = problems(nodes, claims)
    assert told.startswith("the hosts h1 and h2 claim to be node victim")
    # Even before the node exists: it would belong to the first host that joins.
    assert len(list(problems({}, claims))) == 1


def test_nodes_that_do_not_exist_yet_belong_to_no_host() -> None:
    assert list(problems({"other": node(name="other")}, [Identity("new", "h1")])) == []


@pytest.mark.parametrize(
    "values",
    [{}, {"node": "a"}, {"node": "a", "host": "b", "joined": "yes"}, {"node": "a", "host": "b", "addresses": 1}, []],
)
def test_only_the_value_from_the_lookup_is_accepted(values: Any) -> None:
    with pytest.raises(DomainError, match="not a value of the lookup node_identity"):
        read(values)


def test_facts_about_one_node_do_not_count_for_another() -> None:
    values = {"node": "gpu1", "host": "h1", "addresses": ["192.0.2.1"], "control_plane": False, "joined": True}
    assert read(values, "gpu1") == Identity("gpu1", "h1", ("192.0.2.1",), False, True)
    with pytest.raises(DomainError, match="about the node gpu1, not victim"):
        read(values, "victim")


@given(some.text(), some.lists(some.text(max_size=20), max_size=3), some.lists(some.text(max_size=20), max_size=3))
def test_any_text_of_a_node_can_be_compared_and_none_matches_by_chance(
    record: str, internal: list[str], given_addresses: list[str]
) -> None:
    claim = Identity("victim", "h1", tuple(given_addresses))
    assert (problem(node(*internal, record=record), claim) == "") == (record == "h1")
    assert len(problem(node(record=record * 99), claim)) < 600
    if not set(internal) & set(given_addresses):
        told = problem(node(*internal), claim)
        assert told or any(":" in address for address in internal)
