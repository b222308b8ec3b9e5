# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.acceptance import acceptance_nodes, acceptance_seen


@pytest.mark.parametrize(
    ("answers", "hosts", "names", "silent"),
    [
        ([{"name": "node1"}, {"name": "node2"}], ["gpu1", "gpu2"], ["node1", "node2"], []),
        ([{"name": "node1"}, {}], ["gpu1", "gpu2"], ["node1", "gpu2"], ["gpu2"]),
        ([{"name": "node2"}], ["gpu2"], ["node2", "gpu1"], ["gpu1"]),
        ([], [], ["gpu1", "gpu2"], ["gpu1", "gpu2"]),
    ],
)
def test_host_that_did_not_answer_stays_in_the_list(
    answers: list[dict[str, Any]], hosts: list[str], names: list[str], silent: list[str]
) -> None:
    found = acceptance_nodes(answers, hosts, ["gpu1", "gpu2"])
    assert [node["name"] for node in found] == names
    assert [node["name"] for node in found if node.get("state") == "silent" and node["complaint"]] == silent


FOUND: dict[str, Any] = {
    "pci": [],
    "packages": {"nvidia-container-toolkit": None},
    "held": {},
    "containerd_files": [],
    "apt_keys": [],
    "certificates": {},
}
SETTINGS: dict[str, Any] = {
    "node": "gpu1",
    "roles": ["worker"],
    "pins": {},
    "own_plugin": True,
    "containerd_own": [],
}
SHARED = {"mode": "time_slicing", "replicas": 4}
MIG = {"mode": "mig", "layout": ["3g.20gb"]}
GPU = {"index": 0}
CUT = {"profiles": ["3g.20gb", "3g.20gb"]}


@pytest.mark.parametrize(
    ("declaration", "gpus", "expected", "mig", "amounts", "complaint"),
    [
        ({}, [GPU], None, {}, None, ""),
        ({"mode": "exclusive"}, [GPU], 1, {}, None, ""),
        (SHARED, [], None, {}, None, ""),
        (SHARED, [GPU], 0, {}, None, ""),
        (SHARED, [GPU], None, {}, {"nvidia.com/gpu": 4}, ""),
        (SHARED, [GPU], "", {}, None, ""),
        (SHARED, [GPU], "2", {}, {"nvidia.com/gpu": 8}, ""),
        (MIG, [GPU], None, {"skipped": True}, {"nvidia.com/gpu": 1}, ""),
        (MIG, [GPU], None, {"gpus": [CUT], "differs": False}, {"nvidia.com/mig-3g.20gb": 2}, ""),
        (MIG, [GPU], None, {"gpus": [CUT], "differs": True}, {"nvidia.com/mig-3g.20gb": 2}, "the MIG devices differ"),
        (MIG, [GPU], None, {"gpus": None, "msg": "It failed."}, {"nvidia.com/gpu": 1}, "It failed."),
    ],
)
def test_declared_sharing_determines_what_is_verified(
    declaration: dict[str, Any],
    gpus: list[Any],
    expected: Any,
    mig: dict[str, Any],
    amounts: dict[str, int] | None,
    complaint: str,
) -> None:
    settings = {**SETTINGS, "sharing": declaration, "expected": expected, "mig": mig}
    found = acceptance_seen({**FOUND, "nvidia_smi": {"gpus": gpus}}, settings)["host"]["sharing"]
    assert found.get("amounts") == amounts
    assert found.get("complaint", "").startswith(complaint) and bool(found.get("complaint")) == bool(complaint)
