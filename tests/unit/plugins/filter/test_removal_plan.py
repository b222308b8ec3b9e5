# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.removal import FilterModule

FILTERS = FilterModule().filters()
CA = ["sha256:a"]
ID, OTHER = "1" * 32, "2" * 32
NODE = {
    "name": "gpu2",
    "uid": "u2",
    "ready": True,
    "control_plane": False,
    "host": "gpu2",
    "addresses": ["10.0.0.2"],
    "machine_id": ID,
}
MEMBER = {"machine_id": ID, "cluster": {"role": "worker", "begun": True, "ca_hashes": CA, "node_name": "gpu2"}}
BARE = {"machine_id": ID, "cluster": {"role": "", "begun": False, "ca_hashes": [], "node_name": ""}}
POD = {"uid": "p", "namespace": "team", "name": "train", "empty_dirs": []}
VOLUME = {"name": "pvc-1", "claim": "team/data", "where": "/x on gpu2"}
REMOVED = {"name": "gpu2", "host": "gpu2", "machine_id": ID, "since": "2026-11-28T10:00:00Z"}


def entry(**changes: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "name": "gpu2",
        "host": "gpu2",
        "claimed": "gpu2",
        "node": NODE,
        "removed": None,
        "pods": [],
    }
    return {**known, "pods": [], "problem": "", **changes}


def cluster(reading: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**reading, "cluster": {**reading["cluster"], **changes}}


def plan(
    target: dict[str, Any], reading: dict[str, Any], data: str = "keep", policy: str = "refuse", **found: Any
) -> dict[str, Any]:
    found = {"targets": [target], "volumes": [], "stranded": [], **found}
    result: dict[str, Any] = FILTERS["removal_plan"](found, {"gpu2": reading}, ["cp1"], CA, data, policy)
    return result


@pytest.mark.parametrize(
    ("target", "reading", "drains", "reset", "line"),
    [
        (entry(), MEMBER, True, True, "drain and delete the node gpu2; reset the host"),
        # The kubelet has stopped, and so have its pods; the host answers.
        (entry(node={**NODE, "ready": False}), MEMBER, True, True, "drain and delete the node gpu2; reset the host"),
        (
            entry(node={**NODE, "ready": False}),
            {},
            False,
            False,
            "delete the node gpu2; the host does not answer, so it is not reset",
        ),
        (entry(), {}, True, False, "drain and delete the node gpu2; the host does not answer, so it is not reset"),
        (entry(host=""), {}, True, False, "drain and delete the node gpu2; the inventory has no host to reset"),
        # Reset by hand, and reinstalled.
        (entry(), BARE, True, True, "drain and delete the node gpu2; reset the host"),
        (entry(), {**BARE, "machine_id": OTHER}, True, False, "drain and delete the node gpu2; another machine"),
        # Another node, or another cluster, has the address of the host.
        (entry(), cluster(MEMBER, node_name="gpu3"), True, False, "delete the node gpu2; another machine"),
        (entry(), cluster(MEMBER, ca_hashes=["sha256:b"]), True, False, "delete the node gpu2; another machine"),
        # Its certificate is damaged.
        (entry(), cluster(MEMBER, node_name=""), True, True, "reset the host"),
        (entry(), cluster({**MEMBER, "machine_id": OTHER}, node_name=""), True, False, "another machine"),
        # Deleted before: with an old disk, and remembered.
        (entry(node=None), MEMBER, False, True, "gpu2: not a node of this cluster; reset the host"),
        (entry(node=None, removed=REMOVED), BARE, False, True, "not a node of this cluster; reset the host"),
        (entry(node=None, removed=REMOVED), {}, False, False, "not a node of this cluster; the host does not answer"),
        (entry(node=None, removed=REMOVED), {**BARE, "machine_id": OTHER}, False, False, "another machine"),
        (entry(node=None), BARE, False, False, "gpu2: not a node of this cluster"),
        (entry(node=None), {}, False, False, "gpu2: not a node of this cluster"),
        (entry(node=None), cluster(MEMBER, node_name="gpu3"), False, False, "gpu2: not a node of this cluster"),
    ],
)
def test_only_the_machine_of_the_node_is_reset(
    target: dict[str, Any], reading: dict[str, Any], drains: bool, reset: bool, line: str
) -> None:
    found = plan(target, reading)
    assert found["problems"] == []
    (made,) = found["targets"]
    assert (made["drains"], made["reset"]) == (drains, reset)
    assert line in found["lines"][0]
    if made["node"] == "" and not made["record"]:
        assert ("reset" in found["lines"][0]) == reset


@pytest.mark.parametrize(
    ("target", "reading", "options", "problem"),
    [
        (entry(problem="gpu7 is neither"), {}, {}, "gpu7 is neither."),
        (entry(node={**NODE, "control_plane": True}), MEMBER, {}, "gpu2 is a control plane."),
        (entry(node=None), cluster(MEMBER, role="control_plane"), {}, "gpu2 is a control plane."),
        (entry(host="cp1"), MEMBER, {}, "is a control plane."),
        (entry(node=None), cluster(MEMBER, ca_hashes=["sha256:b"]), {}, "gpu2 is a node of another cluster."),
        (entry(), MEMBER, {"volumes": [VOLUME]}, "would be lost: pvc-1 (claim team/data, /x on gpu2). Copy"),
        (entry(), MEMBER, {"volumes": [{**VOLUME, "claim": ""}]}, "pvc-1 (no claim, /x on gpu2)"),
        (entry(pods=[POD]), {}, {}, "runs pods that use its GPUs: team/train. Its host does not answer"),
        (entry(pods=[POD]), {}, {"policy": "wait"}, "team/train"),
        (entry(pods=[POD]), {}, {"policy": "defer"}, "team/train"),
        (entry(pods=[POD]), {}, {"policy": "drain"}, ""),
        (entry(pods=[POD]), {}, {"policy": "ignore"}, ""),
        # The kubelet of the host is asked later, or has stopped.
        (entry(pods=[POD]), MEMBER, {}, ""),
        (entry(pods=[POD], node={**NODE, "ready": False}), {}, {}, ""),
        (entry(), MEMBER, {"volumes": [VOLUME], "data": "lose"}, ""),
    ],
)
def test_removal_is_refused_with_the_reason(
    target: dict[str, Any], reading: dict[str, Any], options: dict[str, Any], problem: str
) -> None:
    problems = plan(target, reading, **options)["problems"]
    assert len(problems) == bool(problem)
    assert problem in "".join(problems) and all(each.endswith(".") for each in problems)


def test_what_is_lost_or_left_without_a_node_is_shown() -> None:
    found = plan(entry(), MEMBER, "lose", volumes=[VOLUME], stranded=["queue a", "the agent"])
    assert found["lines"][1:] == [
        "Lost volumes (their claims stay; delete them): pvc-1 (claim team/data, /x on gpu2)",
        "W&B Launch: no other node matches the node selector of queue a, the agent. Their pods will be pending until "
        "one does.",
    ]


@pytest.mark.parametrize(
    ("target", "reading", "sentence"),
    [
        (entry(), MEMBER, "gpu2 was removed from the cluster, and its host was reset."),
        (entry(), {}, "gpu2 was deleted in the cluster but not reset: its host does not answer."),
        (entry(host=""), {}, "gpu2 was deleted in the cluster but not reset: The cluster remembers it."),
        (entry(node=None), MEMBER, "gpu2 was removed from the cluster, and its host was reset."),
        (entry(node=None), BARE, "gpu2 is not a node of this cluster, and there is nothing to reset."),
        (entry(node=None, removed=REMOVED), {}, "gpu2 was deleted in the cluster but not reset"),
    ],
)
def test_result_says_whether_the_host_was_reset(target: dict[str, Any], reading: dict[str, Any], sentence: str) -> None:
    (made,) = plan(target, reading)["targets"]
    assert FILTERS["removal_result"](made).startswith(sentence)


@pytest.mark.parametrize(
    ("given", "names"),
    [("gpu2", ["gpu2"]), ("gpu2, gpu3,gpu2", ["gpu2", "gpu3"]), (["gpu3"], ["gpu3"]), ("", []), (None, []), (",", [])],
)
def test_names_are_a_list_or_separated_by_commas(given: Any, names: list[str]) -> None:
    assert FILTERS["removal_names"](given) == names


@pytest.mark.parametrize(
    ("names", "answering", "left_out", "problem"),
    [
        (["gpu2"], ["cp1"], [], ""),
        ([], ["cp1"], [], "no node is named. Name one or several with -e node=NAME,NAME."),
        (["gpu2"], ["cp1"], ["cp2"], "--limit leaves out cp2."),
        (["gpu2"], [], [], "no control plane answers (cp1, cp2)."),
    ],
)
def test_run_without_a_node_or_a_control_plane_is_refused(
    names: list[str], answering: list[str], left_out: list[str], problem: str
) -> None:
    found = FILTERS["removal_problem"](names, ["cp1", "cp2"], answering, left_out)
    assert found.startswith(problem) if problem else found == ""


def test_host_that_answers_but_was_not_read_is_not_taken_for_a_silent_one() -> None:
    found = FILTERS["removal_problem"](["gpu2"], ["cp1"], ["cp1"], [], ["gpu2"])
    assert found.startswith("gpu2 could not be read.")


def test_selectors_of_launch() -> None:
    queues = [{"name": "a", "node_selector": {"pool": "x"}}, {"name": "b"}]
    assert FILTERS["removal_selectors"](queues, {"disk": "ssd"}) == {
        "queue a": {"pool": "x"},
        "the agent": {"disk": "ssd"},
    }
    assert FILTERS["removal_selectors"]([], {}) == {}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("# Ours.\n/srv 10.0.0.1(rw) 10.0.0.2(rw,sync)\n", "# Ours.\n/srv 10.0.0.1(rw)\n"),
        ("/srv 10.0.0.2(rw)\n/other 10.0.0.20(rw)\n", "/other 10.0.0.20(rw)\n"),
        ("/srv  10.0.0.0/24(rw)\n\n", "/srv  10.0.0.0/24(rw)\n\n"),
        ("/srv 10.0.0.2/32(rw) *(ro)\n", "/srv *(ro)\n"),
        ("", ""),
    ],
)
def test_export_is_withdrawn_from_addresses(text: str, left: str) -> None:
    assert FILTERS["nfs_export_without"](text, ["10.0.0.2"]) == left
