# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Joins of control planes: what etcd must be like, and what is said about control planes that are missing."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.plan import FilterModule
from ansible_collections.gpulab.kubernetes.plugins.module_utils._etcd.client import facts, tolerance
from ansible_collections.gpulab.kubernetes.plugins.module_utils._etcd.members import (
    HEALTHY,
    UNHEALTHY,
    UNKNOWN,
    UNSTARTED,
    Member,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._etcd.quorum import may_remove, standing
from hypothesis import given
from hypothesis import strategies as st

decide = FilterModule().filters()["etcd_join_plan"]
standing_notice = FilterModule().filters()["control_plane_standing"]
NAMES = [f"cp{number}" for number in range(1, 6)]


def host(name: str, member: bool = False, **variables: Any) -> dict[str, Any]:
    found = {"node_name": name, "node_address": f"192.0.2.{name[-1]}", "cluster": {"finished": member}}
    return {"preflight_host": found, **variables}


HOSTS = {name: host(name) for name in NAMES}


def member(text: str) -> Member:
    """Return the member of cp1 for ``1``, dead for ``1!``, a learner for ``1L``, never started for ``1?``."""
    number, flags = text[0], text[1:]
    health = UNSTARTED if "?" in flags else UNHEALTHY if "!" in flags else HEALTHY
    name = "" if "?" in flags else f"cp{number}"
    return Member(number, name, (f"https://192.0.2.{number}:2380",), (), "L" in flags, health, "it was asked")


def etcd_info(members: list[Member]) -> dict[str, Any]:
    return {"members": [facts(each) for each in members], **tolerance(standing(members))}


@pytest.mark.parametrize(
    ("members", "own", "joining", "resumes", "remove", "words"),
    [
        ("1", "cp2", ["cp2", "cp3"], False, [], ""),
        ("1 2", "cp3", ["cp2", "cp3"], False, [], ""),
        ("1 2 3 4", "cp5", ["cp5"], False, [], ""),
        # What an interrupted join has left: never started, a learner, and one that was promoted.
        ("1 2?L", "cp2", ["cp2"], True, ["2"], ""),
        ("1 2 3 4?", "cp4", ["cp4"], False, ["4"], ""),
        ("1 2L", "cp2", ["cp2"], True, ["2"], ""),
        ("1 2!L", "cp2", ["cp2"], True, ["2"], ""),
        ("1 2 3", "cp3", ["cp3"], True, ["3"], ""),
        # The machine was set up again under its name.
        ("1 2 3!", "cp3", ["cp3"], False, ["3"], ""),
        # etcd allows a single learner, so that of a host that joins later in this run goes first.
        ("1 3?L", "cp2", ["cp2", "cp3"], False, ["3"], ""),
        ("1 3L", "cp2", ["cp2", "cp3"], False, ["3"], ""),
        ("1 3L", "cp2", ["cp2"], False, [], "cp3 is still a learner"),
        ("1 2 3!", "cp4", ["cp4"], False, [], "cp3 (it was asked). Start its machine"),
        ("1 2 3?", "cp4", ["cp4"], False, [], "3 (not started)"),
        # Voters of other hosts that join later stay until it is their turn.
        ("1 2 3!", "cp4", ["cp3", "cp4"], False, [], "not all members of etcd are healthy: cp3"),
        ("1 2", "cp2", ["cp2"], False, ["2"], "another machine has its name"),
        ("1! 2", "cp3", ["cp3"], False, [], "no quorum (1 of 2 voters healthy, 2 needed)"),
        ("1! 2 3!", "cp1", ["cp1", "cp3"], False, ["1"], "no quorum (1 of 3 voters healthy, 2 needed)"),
    ],
)
def test_members_that_are_left_are_removed_and_dead_voters_forbid_a_join(
    members: str, own: str, joining: list[str], resumes: bool, remove: list[str], words: str
) -> None:
    found = decide(etcd_info([member(each) for each in members.split()]), own, joining, HOSTS, resumes)
    assert found["remove"] == remove
    assert words in found["problem"] and bool(found["problem"]) == bool(words), found


def test_an_etcd_that_was_not_asked_forbids_nothing() -> None:
    assert decide({"skipped": True}, "cp2", ["cp2"], HOSTS, False) == {"remove": [], "problem": ""}


@st.composite
def joins(draw: st.DrawFn) -> tuple[list[Member], str, list[str], bool]:
    """Return members of up to five control planes in any state, the host that joins, and all that join."""
    health = st.sampled_from([HEALTHY, HEALTHY, UNHEALTHY, UNKNOWN, UNSTARTED])
    members = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)):
        state = draw(health)
        shown = "" if state == UNSTARTED else name
        urls = (f"https://192.0.2.{name[-1]}:2380",)
        members.append(Member(name[-1], shown, urls, (), draw(st.booleans()), state))
    joining = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    return members, draw(st.sampled_from(joining)), joining, draw(st.booleans())


@given(joins())
def test_after_an_allowed_join_any_new_member_leaves_etcd_writable(
    case: tuple[list[Member], str, list[str], bool],
) -> None:
    members, own, joining, resumes = case
    found = decide(etcd_info(members), own, joining, HOSTS, resumes)
    if found["problem"]:
        return
    left = [each for each in members if each.id not in found["remove"]]
    # All others are healthy voters, and none of them was removed.
    assert all(each.health == HEALTHY and not each.learner for each in left)
    removed = [each for each in members if each.id in found["remove"]]
    assert all(each.id == own[-1] or each.learner or not each.name for each in removed)
    voters = standing(left).voters
    if voters:
        # The quorum guard agrees to each removal, and then the learner is promoted with a quorum of the others.
        assert may_remove(members, found["remove"]).allowed
        assert voters >= standing(left).quorum


@pytest.mark.parametrize(
    ("hosts", "there", "words"),
    [
        ({"cp1": True}, ["cp1"], []),
        ({"cp1": True, "cp2": True, "cp3": True}, ["cp1", "cp2", "cp3"], []),
        # There is no cluster.
        ({"cp1": False, "cp2": False, "cp3": False}, [], []),
        (
            {"cp1": True, "cp2": True, "cp3": False},
            ["cp1", "cp2"],
            [
                "2 of 3 control planes",
                "cp3 (not reached, or failed) is missing",
                "If one of them fails, nothing can be",
            ],
        ),
        ({"cp1": True, "cp2": False, "cp3": False}, ["cp1", "cp2", "cp3"], ["1 of 3", "cp2, cp3 are missing", "If"]),
        ({name: name != "cp5" for name in NAMES}, NAMES, ["4 of 5", "cp5 is missing", "1 of them may fail"]),
        ({name: name < "cp4" for name in NAMES}, NAMES, ["3 of 5", "cp4, cp5 are missing", "1 of them may fail"]),
    ],
)
def test_a_run_says_which_control_planes_are_missing(
    hosts: dict[str, bool], there: list[str], words: list[str]
) -> None:
    found = standing_notice(list(hosts), {name: host(name, there) for name, there in hosts.items()}, there)
    assert all(word in found for word in words) and bool(found) == bool(words), found


def test_a_control_plane_that_has_joined_in_this_run_counts() -> None:
    hosts = {"cp1": host("cp1", True), "cp2": host("cp2", kubeadm_joined_control_plane=True), "cp3": host("cp3", True)}
    assert standing_notice(list(hosts), hosts, list(hosts)) == ""
