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
        "addresses": [],
    }
    return {**known, "pods": [], "problem": "", **changes}


def cluster(reading: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**reading, "cluster": {**reading["cluster"], **changes}}


def plan(
    target: dict[str, Any],
    reading: dict[str, Any],
    data: str = "keep",
    policy: str = "refuse",
    replaces: bool = False,
    members: list[dict[str, Any]] | None = None,
    **found: Any,
) -> dict[str, Any]:
    found = {"targets": [target], "volumes": [], "stranded": [], **found}
    settings = {"data": data, "policy": policy, "replaces": replaces}
    etcd = {} if members is None else {"members": members}
    given = {target["host"]: reading}
    result: dict[str, Any] = FILTERS["removal_plan"](found, given, ["cp1", "cp2", "cp3"], CA, etcd, settings)
    return result


@pytest.mark.parametrize(
    ("target", "reading", "drains", "reset", "line"),
    [
        (entry(), MEMBER, True, True, "drain and delete the node gpu2; reset the host"),
        # The kubelet has stopped, and so have its pods; the host answers.
        (entry(node={**NODE, "ready": False}), MEMBER, False, True, "gpu2: delete the node gpu2; reset the host"),
        (
            entry(node={**NODE, "ready": False}),
            {},
            False,
            False,
            "delete the node gpu2; its host does not answer, so it is not reset",
        ),
        (entry(), {}, True, False, "drain and delete the node gpu2; its host does not answer, so it is not reset"),
        (
            entry(host=""),
            {},
            True,
            False,
            "the inventory has no host for it, so it is not reset",
        ),
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
        (entry(node=None, removed=REMOVED), {}, False, False, "not a node of this cluster; its host does not answer"),
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
        (entry(node=None), cluster(MEMBER, ca_hashes=["sha256:b"]), {}, "gpu2 is a node of another cluster."),
        (entry(), MEMBER, {"volumes": [VOLUME]}, "would be lost: pvc-1 (claim team/data, /x on gpu2). Copy"),
        (entry(), MEMBER, {"volumes": [{**VOLUME, "claim": ""}]}, "pvc-1 (no claim, /x on gpu2)"),
        (entry(pods=[POD]), {}, {}, "runs pods that use its GPUs: team/train. Its host does not answer"),
        (entry(pods=[POD]), {}, {"policy": "wait"}, "team/train"),
        # Another machine answers at the address of a node that works.
        (entry(pods=[POD]), {**BARE, "machine_id": OTHER}, {}, "team/train"),
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
        (entry(host=""), {}, "gpu2 was deleted in the cluster but not reset: the inventory has no host for it."),
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
    ("names", "there", "left_out", "problem"),
    [
        (["gpu2"], "cp1", [], ""),
        (["cp1"], "cp2", [], ""),
        ([], "cp1", [], "no node is named. Name one or several with -e node=NAME,NAME."),
        (["gpu2"], "cp1", ["cp2"], "--limit leaves out cp2."),
        (["gpu2"], "", [], "no control plane answers (cp1, cp2)."),
        (["cp1"], "", [], "no control plane answers (cp2)."),
        (["cp1", "gpu2", "cp2"], "", [], "no control plane would be left."),
    ],
)
def test_run_without_a_node_or_a_control_plane_is_refused(
    names: list[str], there: str, left_out: list[str], problem: str
) -> None:
    found = FILTERS["removal_problem"](names, ["cp1", "cp2"], there, left_out)
    assert found.startswith(problem) if problem else found == ""


def test_host_that_answers_but_was_not_read_is_not_taken_for_a_silent_one() -> None:
    found = FILTERS["removal_problem"](["gpu2"], ["cp1"], "cp1", [], ["gpu2"])
    assert found.startswith("gpu2 could not be read.")


@pytest.mark.parametrize(
    ("names", "readings", "chosen"),
    [
        (["gpu2"], {"cp1": {"api": "alive"}, "cp2": {"api": "alive"}}, "cp1"),
        (["cp1"], {"cp1": {"api": "alive"}, "cp2": {"api": "alive"}}, "cp2"),
        (["gpu2"], {"cp1": {"api": "silent"}, "cp2": {"api": "alive"}}, "cp2"),
        (["gpu2"], {"cp1": {}, "cp2": {"api": "silent"}}, "cp2"),
        (["cp1"], {"cp1": {"api": "alive"}, "cp2": {}}, ""),
    ],
)
def test_api_is_that_of_a_control_plane_that_stays(names: list[str], readings: dict[str, Any], chosen: str) -> None:
    assert FILTERS["removal_api_host"](names, ["cp1", "cp2"], readings) == chosen


CP1 = {**NODE, "name": "cp1", "control_plane": True, "host": "cp1"}
DEAD = {**CP1, "ready": False}
ON_CP1 = cluster(MEMBER, role="control_plane", node_name="cp1")
NEW = {**BARE, "machine_id": OTHER}


def control_plane(**changes: Any) -> dict[str, Any]:
    return entry(name="cp1", host="cp1", claimed="cp1", node=CP1, **changes)


def members(*unhealthy: str, names: str = "cp1 cp2 cp3") -> list[dict[str, Any]]:
    health = {name: "unhealthy" if name in unhealthy else "healthy" for name in names.split()}
    return [{"id": f"id-{name}", "name": name, "learner": False, "health": health[name]} for name in health]


@pytest.mark.parametrize(
    ("node", "reading", "voters", "problem"),
    [
        (CP1, ON_CP1, members(), ""),
        (DEAD, {}, members("cp1"), ""),
        (DEAD, {}, members("cp1", names="cp1 cp2"), "etcd has no quorum (1 of 2 voters healthy, 2 needed)"),
        (CP1, ON_CP1, members("cp2"), "etcd can't lose cp1: cp1 is healthy, and cp2 is unhealthy."),
        (CP1, ON_CP1, members(names="cp1"), "it is the last voter of etcd."),
    ],
)
def test_control_plane_leaves_only_if_the_others_keep_a_quorum(
    node: dict[str, Any], reading: dict[str, Any], voters: list[dict[str, Any]], problem: str
) -> None:
    found = plan(entry(name="cp1", host="cp1", claimed="cp1", node=node), reading, members=voters)
    assert problem in "".join(found["problems"]) and bool(problem) == bool(found["problems"])
    (target,) = found["targets"]
    assert (target["node"], target["members"], target["reset"]) == ("cp1", ["id-cp1"], bool(reading))
    assert found["lines"][0].startswith("cp1: remove its member of etcd; ")
    assert problem or found["lines"][1].endswith("after this, 0 of 2 may fail")


def test_control_plane_is_known_by_the_cluster_too() -> None:
    """The inventory has it as a worker, or not any more."""
    for name, host in (("gpu2", "gpu2"), ("old", "")):
        target = entry(name=name, host=host, claimed=name, node={**CP1, "name": name})
        found = {"targets": [target], "volumes": [], "stranded": []}
        settings = {"data": "keep", "policy": "refuse", "replaces": False}
        assert FILTERS["removal_asks_etcd"](found, {}, ["cp1"])
        unread = FILTERS["removal_plan"](found, {}, ["cp1"], CA, {}, settings)
        assert unread["problems"] == ["a control plane is named, but the members of etcd could not be read."]
        assert not FILTERS["removal_plan"](found, {}, ["cp1"], CA, {}, {**settings, "check": True})["problems"]
        etcd = {"members": members(names=f"{name} cp2")}
        assert FILTERS["removal_plan"](found, {}, ["cp1"], CA, etcd, settings)["targets"][0]["members"] == [
            f"id-{name}"
        ]


def test_member_that_never_started_belongs_to_the_machine_with_its_address() -> None:
    left = {"id": "5", "name": "", "peer_urls": ["https://10.0.0.7:2380"], "learner": True, "health": "unstarted"}
    cases: tuple[tuple[list[str], str, list[str]], ...] = (
        (["10.0.0.7"], "cp3", ["5"]),
        (["10.0.0.8"], "cp3", []),
        # A silent host, whose name comes from its facts.
        ([], "", []),
    )
    for addresses, claimed, ids in cases:
        target = entry(name="cp3", host="cp3", claimed=claimed, node=None, addresses=addresses)
        found = plan(target, {}, members=[*members(names="cp1 cp2"), left])
        assert (found["targets"][0]["members"], found["problems"]) == (ids, [])


def test_host_whose_join_was_interrupted_is_reset() -> None:
    """It has the keys of the control planes, and neither a certificate nor a node."""
    joining = cluster(BARE, role="control_plane", begun=True, ca_hashes=CA)
    (target,) = plan(entry(name="cp3", host="cp3", node=None), joining, members=members())["targets"]
    assert (target["reset"], target["loses_etcd"]) == (True, True)
    (worker,) = plan(entry(), MEMBER)["targets"]
    assert (worker["reset"], worker["loses_etcd"]) == (True, False)


def test_control_planes_that_have_failed_leave_first() -> None:
    targets = [control_plane(), entry(name="cp3", host="cp3", claimed="cp3", node={**DEAD, "name": "cp3"})]
    settings = {"data": "keep", "policy": "refuse", "replaces": False}
    found = {"targets": targets, "volumes": [], "stranded": []}
    etcd, readings = {"members": members("cp3")}, {"cp1": ON_CP1, "cp3": {}}
    made = FILTERS["removal_plan"](found, readings, ["cp1", "cp2", "cp3"], CA, etcd, settings)
    assert ([each["name"] for each in made["targets"]], made["problems"]) == (["cp3", "cp1"], [])


@pytest.mark.parametrize(
    ("target", "reading", "unhealthy", "problem"),
    [
        (control_plane() | {"node": DEAD}, NEW, "cp1", ""),
        (entry(node={**NODE, "ready": False}), NEW, "", ""),
        # Of an earlier run, which was interrupted.
        (entry(node=None, removed=REMOVED), NEW, "", ""),
        (control_plane() | {"node": None}, NEW, "cp1", ""),
        # The join of the new machine was interrupted: a member of it may run.
        (control_plane() | {"node": None}, cluster(NEW, begun=True, ca_hashes=CA), "", ""),
        (entry(node=None, removed=REMOVED), cluster(NEW, begun=True), "", ""),
        (control_plane(), NEW, "cp1", "is still running: cp1 is healthy. Switch it off"),
        (
            control_plane() | {"node": DEAD},
            NEW,
            "",
            "is still running: cp1 is healthy. Switch it off",
        ),
        (control_plane() | {"node": DEAD}, {}, "cp1", "the new machine does not answer."),
        (control_plane() | {"node": DEAD}, cluster(ON_CP1, ca_hashes=["sha256:b"]), "cp1", "is in a cluster already"),
        (entry(host="", node={**NODE, "ready": False}), {}, "", "gpu2 is not a host of the inventory."),
    ],
)
def test_machine_is_replaced_by_a_new_one_while_the_former_is_off(
    target: dict[str, Any], reading: dict[str, Any], unhealthy: str, problem: str
) -> None:
    found = plan(target, reading, replaces=True, members=members(unhealthy))
    assert problem in "".join(found["problems"]) and bool(problem) == bool(found["problems"])
    assert not found["targets"][0]["reset"]


def test_machine_that_is_that_of_its_node_is_not_replaced() -> None:
    found = plan(control_plane(), ON_CP1, replaces=True, members=members(), volumes=[VOLUME])
    (target,) = found["targets"]
    assert (found["problems"], target["node"], target["members"], target["reset"]) == ([], "", [], False)
    assert FILTERS["removal_result"](target).endswith("is that of the node. Nothing was removed.")


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
