# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.plan import disruption

TRAIN = {"uid": "0f1f", "namespace": "team", "name": "train", "empty_dirs": ["cache", "scratch"]}
PLAIN = {"uid": "1a2b", "namespace": "team", "name": "eval", "empty_dirs": []}
NAMELESS = {"uid": "2c3d", "namespace": "", "name": "", "empty_dirs": []}
SHELL = {"pid": 811, "name": "python3", "unit": ""}
DAEMON = {"pid": 812, "name": "dcgm", "unit": "dcgm.service"}
LOST = "Draining gpu1 deletes what pods have in emptyDir volumes: team/train: cache, scratch"


@pytest.mark.parametrize(
    ("policy", "pods", "processes", "refused", "drain", "warning"),
    [
        ("refuse", [], [], False, False, ""),
        ("refuse", [PLAIN], [], True, False, ""),
        ("refuse", [TRAIN], [], True, False, ""),
        ("refuse", [], [SHELL], True, False, ""),
        ("drain", [], [], False, False, ""),
        ("drain", [PLAIN], [], False, True, ""),
        ("drain", [PLAIN, TRAIN], [SHELL], False, True, LOST),
        ("drain", [], [SHELL], False, False, ""),
        ("ignore", [TRAIN], [SHELL], False, False, ""),
        # Whatever else it is called, nothing is interrupted.
        ("Drain", [PLAIN], [], True, False, ""),
    ],
)
def test_the_policy_decides_what_happens_to_users_of_gpus(
    policy: str, pods: list[Any], processes: list[Any], refused: bool, drain: bool, warning: str
) -> None:
    found = disruption(pods, policy, "gpu1", "a restart", processes)
    assert (bool(found["refusal"]), found["drain"], found["warning"]) == (refused, drain, warning)


@pytest.mark.parametrize(("policy", "refused"), [("refuse", True), ("drain", True), ("ignore", False)])
def test_a_pod_that_has_started_after_the_cordon_is_not_interrupted(policy: str, refused: bool) -> None:
    found = disruption([TRAIN], policy, "gpu1", "a restart", [SHELL], held=True)
    assert (bool(found["refusal"]), found["drain"], found["warning"]) == (refused, False, "")
    assert not refused or "pods that have been started meanwhile use the GPUs of gpu1: team/train" in found["refusal"]
    assert not disruption([], policy, "gpu1", "a restart", [SHELL], held=True)["refusal"]


def test_a_refusal_names_each_user_and_the_ways_out() -> None:
    refusal = disruption([TRAIN, NAMELESS], "refuse", "gpu1", "a restart of containerd", [SHELL, DAEMON])["refusal"]
    assert refusal.startswith(
        "Error while preparing a restart of containerd: it would interrupt what uses the GPUs of gpu1: team/train, "
        "pod 2c3d, python3 811, dcgm 812 dcgm.service. "
    )
    assert "cluster_disruption_policy=drain" in refusal and "=ignore" in refusal
    assert refusal.endswith(f" {LOST}.")
