# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Isolating and releasing a node: both policies, repetition, a change of policy, and unmanaged changes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.isolation import isolate as isolate_node
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.isolation import isolation
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.maintenance import (
    TAINT_KEY,
    Maintenance,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.nodes import merged
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.records import CORDON, ISOLATION, TAINT
from hypothesis import given
from hypothesis import strategies as st

OTHER = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
NOW, LATER = "2026-11-22T05:06:25Z", "2026-11-22T06:00:00Z"


def node(cordoned: bool = False, taints: list[Any] | None = None, **annotations: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"podCIDR": "10.244.1.0/24"}
    if cordoned:
        spec["unschedulable"] = True
    if taints:
        spec["taints"] = taints
    return {
        "metadata": {"name": "gpu1", "resourceVersion": "7", "annotations": {"a/b": "c", **annotations}},
        "spec": spec,
    }


class Api:
    """An API with one node, which keeps the patch."""

    def __init__(self, thing: dict[str, Any]) -> None:
        self.node = thing
        self.patch: dict[str, Any] | None = None

    def find(self, path: str) -> dict[str, Any]:
        return self.node

    def merge(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        self.patch, self.node = patch, merged(self.node, patch)
        return self.node


def isolate(thing: dict[str, Any], policy: str, reason: str, now: str) -> dict[str, Any] | None:
    api = Api(thing)
    isolate_node(Maintenance(api, "gpu1", ISOLATION, False), policy, reason, now, True)  # type: ignore[arg-type]
    return api.patch


def give_back(thing: dict[str, Any]) -> dict[str, Any] | None:
    api = Api(thing)
    Maintenance(api, "gpu1", ISOLATION, False).end()  # type: ignore[arg-type]
    return api.patch


def after(thing: dict[str, Any], patch: dict[str, Any] | None) -> dict[str, Any]:
    return merged(thing, patch or {})


def state(thing: dict[str, Any]) -> tuple[bool, list[str]]:
    return bool(thing["spec"].get("unschedulable")), [taint["key"] for taint in thing["spec"].get("taints", [])]


@pytest.mark.parametrize(
    ("policy", "start", "wanted"),
    [
        ("taint", node(), (False, [TAINT_KEY])),
        ("taint", node(taints=[OTHER]), (False, ["dedicated", TAINT_KEY])),
        ("taint", node(cordoned=True), (True, [TAINT_KEY])),
        ("cordon", node(), (True, [])),
        ("cordon", node(cordoned=True, taints=[OTHER]), (True, ["dedicated"])),
    ],
)
def test_a_node_is_isolated_and_released(policy: str, start: dict[str, Any], wanted: tuple[bool, list[str]]) -> None:
    first = after(start, isolate(start, policy, "Xid 79", NOW))
    assert state(first) == wanted
    known = isolation(first)
    assert known == {
        "reason": "Xid 79",
        "since": NOW,
        "policy": policy,
        "was_cordoned": bool(start["spec"].get("unschedulable")),
    }
    assert isolate(first, policy, "Xid 79", LATER) is None
    assert isolate(first, policy, "", LATER) is None
    assert after(first, give_back(first)) == start
    assert give_back(start) is None


def test_another_reason_keeps_the_time() -> None:
    first = after(node(), isolate(node(), "taint", "Xid 79", NOW))
    again = after(first, isolate(first, "taint", "Xid 48", LATER))
    known = isolation(again)
    assert (known["reason"], known["since"]) == ("Xid 48", NOW)


@pytest.mark.parametrize("cordoned", [True, False])
def test_the_policy_of_an_isolated_node_can_change_and_change_back(cordoned: bool) -> None:
    start = node(cordoned=cordoned)
    thing = start
    for policy, wanted in (("cordon", (True, [])), ("taint", (cordoned, [TAINT_KEY])), ("cordon", (True, []))):
        thing = after(thing, isolate(thing, policy, "r", NOW))
        assert state(thing) == wanted
    assert after(thing, give_back(thing)) == start


def test_isolation_that_was_undone_manually_is_restored() -> None:
    for policy in (TAINT, CORDON):
        first = after(node(), isolate(node(), policy, "r", NOW))
        undone = merged(first, {"spec": {"taints": None, "unschedulable": None}})
        assert state(after(undone, isolate(undone, policy, "r", LATER))) == state(first)


def test_a_manual_cordon_during_the_isolation_is_kept() -> None:
    first = after(node(), isolate(node(), "taint", "r", NOW))
    cordoned = merged(first, {"spec": {"unschedulable": True}})
    assert isolate(cordoned, "taint", "r", LATER) is None
    assert state(after(cordoned, give_back(cordoned))) == (True, [])


def test_a_patch_has_the_resource_version_that_was_read() -> None:
    patch = isolate(node(), "taint", "r", NOW)
    assert patch and patch["metadata"]["resourceVersion"] == "7"
    assert "unschedulable" not in patch["spec"]


STEPS = st.lists(st.sampled_from([TAINT, CORDON, "back"]), max_size=8)


@given(st.booleans(), st.booleans(), STEPS)
def test_releasing_restores_the_node_after_any_changes(cordoned: bool, tainted: bool, steps: list[str]) -> None:
    start = node(cordoned=cordoned, taints=[OTHER] if tainted else None)
    thing = start
    for step in [*steps, "back"]:
        thing = after(thing, give_back(thing) if step == "back" else isolate(thing, step, "r", NOW))
        assert (isolation(thing) == {}) == (step == "back")
    assert thing == start
