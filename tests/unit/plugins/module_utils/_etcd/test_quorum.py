# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from itertools import combinations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._etcd.members import (
    HEALTHY,
    UNHEALTHY,
    UNKNOWN,
    UNSTARTED,
    Member,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._etcd.quorum import (
    Standing,
    Verdict,
    find,
    may_remove,
    may_stop,
    standing,
)
from hypothesis import given
from hypothesis import strategies as st

LETTERS = {"h": HEALTHY, "d": UNHEALTHY, "?": UNKNOWN, "u": UNSTARTED}


def cluster(text: str) -> list[Member]:
    """Members a, b, ... of this health; an upper case letter is a learner."""
    names = "abcde"
    return [
        Member(
            id=f"1{place}",
            name="" if letter in "uU" else names[place],
            learner=letter.isupper(),
            health=LETTERS[letter.lower()],
        )
        for place, letter in enumerate(text)
    ]


clusters = st.text("hd?uHDU", min_size=1, max_size=5).map(cluster)


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[Member], list[Member]]:
    members = draw(clusters)
    return members, draw(st.lists(st.sampled_from(members), min_size=1, unique=True))


def voters(members: list[Member]) -> list[Member]:
    return [each for each in members if not each.learner]


def works(members: list[Member]) -> bool:
    """Whether more than half of the voters are healthy."""
    return 2 * sum(each.health == HEALTHY for each in voters(members)) > len(voters(members))


def tolerated(members: list[Member]) -> int:
    """The largest number of healthy voters of which any may fail, by trying all of them."""
    running = [each for each in voters(members) if each.health == HEALTHY]

    def survives(failed: tuple[Member, ...]) -> bool:
        left = [Member(each.id, health=UNHEALTHY) if each in failed else each for each in voters(members)]
        return works(left)

    sizes = [
        size for size in range(len(running) + 1) if all(survives(failed) for failed in combinations(running, size))
    ]
    return max(sizes, default=0)


def ids(members: list[Member]) -> list[str]:
    return [each.id for each in members]


@given(requests())
def test_each_step_of_an_allowed_removal_is_agreed_to_by_a_quorum_and_leaves_one(
    asked: tuple[list[Member], list[Member]],
) -> None:
    members, targets = asked
    verdict = may_remove(members, ids(targets))
    assert sorted(ids(list(verdict.order))) == sorted(ids(targets))
    left = list(members)
    if verdict.allowed:
        for each in verdict.order:
            assert works(left)
            left.remove(each)
            assert works(left)
        assert (verdict.after.voters, verdict.after.may_fail) == (len(voters(left)), tolerated(left))
        assert f"after this, {tolerated(left)} of {len(voters(left))} may fail" in verdict.reason
    assert bool(verdict.warning) == (verdict.allowed and len(voters(left)) == 2)


@given(requests())
def test_an_allowed_stop_leaves_a_quorum_running(asked: tuple[list[Member], list[Member]]) -> None:
    members, targets = asked
    verdict = may_stop(members, ids(targets))
    left = [Member(each.id, learner=each.learner) if each in targets else each for each in members]
    assert verdict.allowed == works(left)
    if verdict.allowed:
        assert f"after this, {tolerated(left)} of {len(voters(left))} may fail" in verdict.reason


@given(requests())
def test_members_that_are_not_healthy_can_be_removed_while_the_others_are_a_quorum(
    asked: tuple[list[Member], list[Member]],
) -> None:
    members, targets = asked
    dead = [each for each in targets if each.learner or each.health != HEALTHY]
    if dead and works(members):
        assert may_remove(members, ids(dead)).allowed


@given(requests())
def test_no_healthy_voter_is_removed_while_another_one_is_not_healthy(
    asked: tuple[list[Member], list[Member]],
) -> None:
    members, targets = asked
    left = [each for each in voters(members) if each not in targets]
    if any(each.health == HEALTHY for each in voters(targets)) and any(each.health != HEALTHY for each in left):
        assert not may_remove(members, ids(targets)).allowed


@given(requests())
def test_agreeing_to_lose_the_last_voter_changes_nothing_else(asked: tuple[list[Member], list[Member]]) -> None:
    members, targets = asked
    last = not [each for each in voters(members) if each not in targets]
    assert may_remove(members, ids(targets), last_voter=True).allowed == (
        last or may_remove(members, ids(targets)).allowed
    )
    stopped = may_stop(members, ids(targets), last_voter=True).allowed
    only = [each.health for each in voters(members)] == [HEALTHY] and last
    assert stopped == (only or may_stop(members, ids(targets)).allowed)


@given(clusters)
def test_learners_do_not_count(members: list[Member]) -> None:
    assert standing(members) == standing(voters(members))
    assert standing(members).may_fail == (tolerated(members) if works(members) else 0)


@pytest.mark.parametrize(
    ("members", "removed", "reason"),
    [
        ("hhh", "a", "2 of 2 voters healthy; after this, 0 of 2 may fail"),
        ("hhd", "c", "2 of 2 voters healthy; after this, 0 of 2 may fail"),
        ("hh", "a", "1 of 1 voter healthy; after this, 0 of 1 may fail"),
        ("hhhH", "d", "3 of 3 voters healthy; after this, 1 of 3 may fail"),
        ("hhhU", "13", "3 of 3 voters healthy; after this, 1 of 3 may fail"),
        ("hhhhh", "a b", "3 of 3 voters healthy; after this, 1 of 3 may fail"),
        ("hhd", "a c", "1 of 1 voter healthy; after this, 0 of 1 may fail"),
    ],
)
def test_a_removal_is_allowed(members: str, removed: str, reason: str) -> None:
    verdict = may_remove(cluster(members), removed.split())
    assert (verdict.allowed, verdict.reason) == (True, reason)


NO_QUORUM = (
    "etcd has no quorum ({}), so it can't remove a member. Start the members that have stopped; if they are lost, "
    "restore a snapshot."
)


@pytest.mark.parametrize(
    ("members", "removed", "reason"),
    [
        ("hhd", "a", "a is healthy, and c is unhealthy. Repair or remove what is not healthy first."),
        ("hhu", "a", "a is healthy, and 12 (not started) is unstarted. Repair or remove what is not healthy first."),
        ("hh?", "a", "a is healthy, and c is unknown. Repair or remove what is not healthy first."),
        ("hd", "b", NO_QUORUM.format("1 of 2 voters healthy, 2 needed")),
        ("hdd", "b", NO_QUORUM.format("1 of 3 voters healthy, 2 needed")),
        ("h", "a", "it is the last voter of etcd. It is removed only if this is explicitly agreed to."),
        ("hH", "a", "it is the last voter of etcd. It is removed only if this is explicitly agreed to."),
        ("hhh", "a b c", "it is the last voter of etcd. It is removed only if this is explicitly agreed to."),
    ],
)
def test_a_removal_is_refused(members: str, removed: str, reason: str) -> None:
    verdict = may_remove(cluster(members), removed.split())
    assert (verdict.allowed, verdict.reason) == (False, reason)


@pytest.mark.parametrize(
    ("members", "stopped", "allowed", "reason"),
    [
        ("hhh", "a", True, "2 of 3 voters healthy; after this, 0 of 3 may fail"),
        ("hhhH", "d", True, "3 of 3 voters healthy; after this, 1 of 3 may fail"),
        ("hhd", "c", True, "2 of 3 voters healthy; after this, 0 of 3 may fail"),
        ("hhd", "a", False, "etcd would lose its quorum (1 of 3 voters healthy, 2 needed). Wait until more members"),
        ("hhh", "a b", False, "etcd would lose its quorum (1 of 3 voters healthy, 2 needed). Wait until more members"),
        ("hh", "a", False, "A cluster of two members stops when either of them stops. Add a third member, or remove"),
        ("hdd", "a", False, "etcd has no quorum (1 of 3 voters healthy, 2 needed). Start the members"),
        ("h", "a", False, "it is the last voter of etcd. It is stopped only if this is explicitly agreed to."),
    ],
)
def test_a_stop_is_decided(members: str, stopped: str, allowed: bool, reason: str) -> None:
    verdict = may_stop(cluster(members), stopped.split())
    assert verdict.allowed == allowed
    assert verdict.reason.startswith(reason)


def test_the_last_voter_goes_if_that_was_agreed() -> None:
    for decide, done in ((may_remove, "removed"), (may_stop, "stopped")):
        verdict: Verdict = decide(cluster("h"), ["a"], last_voter=True)
        assert (verdict.allowed, verdict.reason) == (True, f"the last voter of etcd may be {done}, as was agreed")


def test_removing_the_third_member_warns_of_a_cluster_of_two() -> None:
    assert may_remove(cluster("hhh"), ["a"]).warning.startswith("A cluster of two members is worse than one")
    assert not may_remove(cluster("hhhh"), ["a"]).warning


def test_an_unknown_member_is_an_error() -> None:
    for decide in (may_remove, may_stop):
        with pytest.raises(
            DomainError, match=r"member x of etcd: there is none. The members are a \(10\), 11 \(not started\)\.$"
        ):
            decide(cluster("hu"), ["x"])


def test_a_name_that_several_members_have_is_an_error() -> None:
    members = [Member("10", "a", health=HEALTHY), Member("11", "a", health=UNHEALTHY), Member("12", "b")]
    with pytest.raises(DomainError, match=r"several members have this name.*: 10 \(healthy\), 11 \(unhealthy\)\.$"):
        find(members, "a")
    assert find(members, "11") == members[1]
    # Members that never started have an empty name.
    with pytest.raises(DomainError, match=r"its name or id is empty\. The members are "):
        find(members, "")


def test_the_same_member_by_name_and_by_id_counts_once() -> None:
    assert may_stop(cluster("hhh"), ["a", "10"]).after == Standing(3, 2)
