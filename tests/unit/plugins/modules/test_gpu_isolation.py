# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.maintenance import TAINT_KEY
from fake_node import FakeNode


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def isolate(node: FakeNode, run_module: Any, tmp_path: Path) -> Iterator[Any]:
    with node.serve(tmp_path) as kubeconfig:

        def run(check: bool = False, **arguments: Any) -> dict[str, Any]:
            common = {"kubeconfig": str(kubeconfig), "node": "gpu1"}
            result: dict[str, Any] = run_module("gpu_isolation", {**common, **arguments}, check=check)
            return result

        yield run


def test_a_node_is_isolated_and_released_once_each(node: FakeNode, isolate: Any) -> None:
    predicted = isolate(check=True, reason="Xid 79")
    assert (predicted["changed"], predicted["isolated"], node.patches) == (True, True, 0)
    first = isolate(reason="Xid 79")
    assert (first["changed"], first["isolation"]["reason"]) == (True, "Xid 79")
    for key in ("taints", "cordoned"):
        assert first["diff"]["after"][key] == predicted["diff"]["after"][key]
    assert node.body["spec"] == {"taints": [{"key": TAINT_KEY, "value": "true", "effect": "NoSchedule"}]}
    assert not isolate(reason="Xid 79")["changed"]
    asked = isolate(check=True, state="returned")
    assert (asked["changed"], asked["isolation"]["reason"], node.patches) == (True, "Xid 79", 1)
    back = isolate(state="returned")
    assert (back["changed"], back["isolated"], node.body["spec"]) == (True, False, {})
    again = isolate(state="returned")
    assert (again["changed"], again["isolation"], node.patches) == (False, {}, 2)


def test_a_node_can_be_isolated_by_a_cordon(node: FakeNode, isolate: Any) -> None:
    assert isolate(policy="cordon")["diff"]["after"]["cordoned"]
    assert node.body["spec"] == {"unschedulable": True}


@pytest.mark.parametrize(("conflicts", "failed"), [(2, False), (9, True)])
def test_a_conflict_with_a_simultaneous_change_of_the_node_is_retried(
    node: FakeNode, isolate: Any, conflicts: int, failed: bool
) -> None:
    node.conflicts = conflicts
    assert isolate(reason="Xid 79")["failed"] is failed


def test_a_missing_node_is_an_error(isolate: Any) -> None:
    result = isolate(node="gpu9")
    assert result["failed"] and "the cluster has no node of this name" in result["msg"]
