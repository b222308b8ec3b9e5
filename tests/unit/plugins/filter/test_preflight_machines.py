# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.preflight import inventory_addresses, preflight_notes
from test_preflight_problems import SETTINGS, find, finished, reading

# Machine IDs are the numbers of the hosts, see preflight_facts.
FORMER = "f" * 32
FOUND: dict[str, Any] = {
    "action": "finished",
    "reason": "",
    "advice": "",
    "api": "alive",
    "version": "",
    "texts": {},
    "daemonsets": [],
    "gpu_managers": [],
    "gpus_twice": {},
    "error": "",
}
HOSTS = {"hosts": ["cp1", "gpu1", "gpu2"], "addresses": ["192.168.7.13"]}


def node(name: str, number: int, **changes: Any) -> dict[str, Any]:
    known = {"name": name, "uid": f"u-{name}", "ready": True, "control_plane": name == "cp1", "host": name}
    return {**known, "addresses": [f"192.168.7.{number}"], "machine_id": f"{number:032x}", **changes}


def cluster(
    *gpu2: dict[str, Any], bare: bool = True, removed: dict[str, Any] | None = None, api: bool = True
) -> dict[str, Any]:
    """Return a cluster of cp1 and gpu1 with further nodes; the host gpu2 is ``bare``, or has the files of a node."""
    hosts: dict[str, Any] = finished()
    if bare:
        hosts["gpu2"] = reading("gpu2", 13, 2)
    nodes = [node("cp1", 11), node("gpu1", 12), *gpu2] if api else []
    hosts["cp1"]["facts"]["control_plane"] = {**FOUND, "nodes": nodes, "removed_nodes": removed or {}}
    return hosts


@pytest.mark.parametrize(
    ("gpu2", "kind", "words"),
    [
        (
            node("gpu2", 13, machine_id=FORMER, ready=False),
            "node_of_former_machine",
            ["a node gpu2 (NotReady) of another machine", "replace_node -i INVENTORY -e node=gpu2"],
        ),
        (node("gpu2", 19, machine_id=FORMER), "node_of_former_machine", ["gpu2 (Ready)"]),
        (
            node("old7", 13, machine_id=FORMER, ready=False),
            "node_address_taken",
            ["The address 192.168.7.13 of this host is that of the node old7 (NotReady)", "-e node=old7"],
        ),
        (
            node("old7", 19, host="gpu2", machine_id=FORMER),
            "host_is_another_machine",
            [
                "this host is the node old7 (Ready), but the machine that answers calls itself gpu2",
                "replace_node -i INVENTORY -e node=gpu2",
            ],
        ),
    ],
)
def test_machine_in_the_place_of_a_node_is_refused(gpu2: dict[str, Any], kind: str, words: list[str]) -> None:
    (problem,) = find(cluster(gpu2), {**SETTINGS, **HOSTS})
    assert (problem["kind"], problem["host"]) == (kind, "gpu2")
    text = " ".join(problem[field] for field in ("what", "where", "why", "do"))
    assert all(word in text for word in words), text
    replaced = find(cluster(gpu2), {**SETTINGS, **HOSTS, "replaces": "gpu1, gpu2"})
    assert [each["kind"] for each in replaced] == ([kind] if kind == "node_address_taken" else [])


@pytest.mark.parametrize(
    "gpu2",
    [
        node("gpu2", 13),
        node("gpu2", 13, ready=False),
        # An API server of an earlier version, or a kubelet that has not reported yet.
        node("gpu2", 13, machine_id=""),
        node("gpu9", 19, host="gpu9", machine_id=FORMER),
    ],
)
def test_machine_that_was_only_reset_may_join_again(gpu2: dict[str, Any]) -> None:
    assert find(cluster(gpu2), {**SETTINGS, **HOSTS}) == []


def test_machine_whose_join_was_interrupted_may_continue() -> None:
    hosts = cluster(node("gpu2", 13, machine_id=FORMER))
    hosts["gpu2"]["facts"]["cluster"]["begun"] = True
    assert find(hosts, {**SETTINGS, **HOSTS}) == []


@pytest.mark.parametrize(
    ("removed", "words"),
    [
        ({}, "has no such node: it was deleted there, or the host has an old disk"),
        (
            {"gpu2": {"host": "gpu2", "machine_id": "", "since": "2026-11-28T10:00:00Z"}},
            "it was removed on 2026-11-28T10:00:00Z while the host could not be reset",
        ),
        ({"gpu2": {"host": "", "machine_id": "", "since": ""}}, "it was removed while the host could not be reset"),
        ({"gpu7": {"host": "gpu7", "machine_id": "", "since": ""}}, "it was deleted there"),
    ],
)
def test_host_with_the_files_of_a_deleted_node_is_refused(removed: dict[str, Any], words: str) -> None:
    (problem,) = find(cluster(bare=False, removed=removed), {**SETTINGS, **HOSTS})
    assert (problem["kind"], problem["host"]) == ("node_deleted", "gpu2")
    assert words in problem["what"] and "-e node=gpu2` (or kubeadm reset on the host)" in problem["do"]


def test_control_plane_whose_node_was_deleted_is_refused() -> None:
    hosts = cluster(bare=False)
    settings = {**SETTINGS, **HOSTS, "control_plane": ["gpu2", "cp1"], "cluster_api_endpoint": "api.lab.internal:6443"}
    hosts["gpu2"]["facts"]["cluster"]["role"] = "control_plane"
    assert ("node_deleted", "gpu2") in [(each["kind"], each["host"]) for each in find(hosts, settings)]


def test_nodes_are_only_missing_if_the_api_was_read() -> None:
    assert find(cluster(bare=False, api=False), {**SETTINGS, **HOSTS}) == []


def test_host_of_another_cluster_is_no_deleted_node() -> None:
    hosts = cluster(bare=False)
    hosts["gpu2"]["facts"]["cluster"]["ca_hashes"] = ["sha256:other"]
    assert [problem["kind"] for problem in find(hosts, {**SETTINGS, **HOSTS})] == ["host_in_other_cluster"]


@pytest.mark.parametrize(
    ("extra", "unknown"),
    [
        (node("old7", 19, host="", ready=False), "old7 (NotReady)"),
        (node("old7", 19, host="former-name"), "old7 (Ready)"),
        # Known by its record, by its name, and by its address in the inventory.
        (node("other", 19, host="gpu2"), ""),
        (node("gpu2", 19, host=""), ""),
        (node("other", 13, host=""), ""),
    ],
)
def test_nodes_that_no_inventory_knows_are_a_note(extra: dict[str, Any], unknown: str) -> None:
    hosts = cluster(extra)
    del hosts["gpu2"]
    notes = [note for note in preflight_notes(hosts, {**SETTINGS, **HOSTS}) if "inventory does not name" in note]
    assert [unknown in note for note in notes] == ([True] if unknown else [])


@pytest.mark.parametrize(
    ("removed", "noted"),
    [
        ({}, ""),
        ({"gpu7": {"host": "gpu7", "machine_id": "", "since": "2026-11-28T10:00:00Z"}}, "gpu7 (2026-11-28T10:00:00Z)"),
        ({"gpu7": {"host": "", "machine_id": "", "since": ""}}, "gpu7 (at an unknown time)"),
        # A problem of its own, if it has the files of the node.
        ({"gpu2": {"host": "gpu2", "machine_id": "", "since": ""}}, ""),
    ],
)
def test_removed_nodes_whose_machine_was_not_reset_are_a_note(removed: dict[str, Any], noted: str) -> None:
    notes = preflight_notes(cluster(removed=removed), {**SETTINGS, **HOSTS})
    found = [note for note in notes if "gone, not fenced" in note]
    assert [noted in note for note in found] == ([True] if noted else [])


def test_addresses_of_the_inventory() -> None:
    variables = {
        "gpu1": {"ansible_host": "192.0.2.11", "cluster_node_address": "10.0.0.11"},
        "gpu2": {"ansible_host": "192.0.2.11"},
        "gpu3": {},
    }
    assert inventory_addresses(variables, [*variables]) == ["10.0.0.11", "192.0.2.11"]
