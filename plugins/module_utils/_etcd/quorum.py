# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether members of etcd may be removed or stopped, for everything that does so. Pure functions.

A change of the members, and every write, needs the agreement of a quorum: more than half of the voters, whether they
run or not. Therefore, a dead member is removed before a healthy one, and before a new one is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .._errors import DomainError
from .._words import counted, listing
from .members import HEALTHY, Member

_REPAIR = "Start the members that have stopped; if they are lost, restore a snapshot."
_TRAP = (
    "A cluster of two members is worse than one of a single member: if either of the two fails, etcd stops. Add a "
    "third member, or remove the second, as the next step."
)


@dataclass(frozen=True)
class Standing:
    """How many voters there are, and how many of them are known to be healthy."""

    voters: int
    healthy: int

    @property
    def quorum(self) -> int:
        return self.voters // 2 + 1

    @property
    def has_quorum(self) -> bool:
        return self.healthy >= self.quorum

    @property
    def may_fail(self) -> int:
        """Number of healthy voters that may fail without stopping etcd."""
        return max(self.healthy - self.quorum, 0)

    def __str__(self) -> str:
        return f"{self.healthy} of {counted(self.voters, 'voter')} healthy"


@dataclass(frozen=True)
class Verdict:
    """``allowed``, why or why not, and what would remain; ``order`` is that in which to remove the members."""

    allowed: bool
    reason: str
    after: Standing
    order: tuple[Member, ...]
    warning: str = ""


def standing(members: Iterable[Member]) -> Standing:
    """Count the voters. One of unknown health counts as if it had failed; learners don't count."""
    voters = [each for each in members if not each.learner]
    return Standing(len(voters), sum(each.health == HEALTHY for each in voters))


def find(members: Sequence[Member], wanted: str) -> Member | None:
    """Return the member with this id or name, None if there is none.

    Raise DomainError if several have the name, and for an empty one, which members have that never started.
    """
    if not wanted:
        raise DomainError(f"Error while looking for a member of etcd: its name or id is empty. {_known(members)}")
    found = [each for each in members if wanted in (each.id, each.name)]
    if len(found) > 1:
        raise DomainError(
            f"Error while looking for the member {wanted} of etcd: several members have this name. Give the id of "
            f"one: {listing(f'{each.id} ({each.health})' for each in found)}."
        )
    return found[0] if found else None


def may_remove(members: Sequence[Member], wanted: Iterable[str], last_voter: bool = False) -> Verdict:
    """Decide about removing members, given by id or name, one after the other.

    ``last_voter`` means that a person has agreed to lose the last copy of the data. Raise DomainError for a member that
    does not exist.
    """
    targets = sorted(_named(members, wanted), key=lambda each: (not each.learner, each.health == HEALTHY))
    left = [each for each in members if each not in targets]
    now, after = standing(members), standing(left)
    dead = [each for each in left if not each.learner and each.health != HEALTHY]
    healthy = [each.label for each in targets if not each.learner and each.health == HEALTHY]

    def verdict(allowed: bool, reason: str) -> Verdict:
        return Verdict(allowed, reason, after, tuple(targets), _TRAP if allowed and after.voters == 2 else "")

    if not after.voters:
        return verdict(last_voter, _last("removed", last_voter))
    if not now.has_quorum:
        missing = f"etcd has no quorum ({now}, {now.quorum} needed)"
        return verdict(False, f"{missing}, so it can't remove a member. {_REPAIR}")
    if healthy and dead:
        return verdict(
            False,
            f"{listing(healthy)} is healthy, and {listing(f'{each.label} is {each.health}' for each in dead)}. "
            "Repair or remove what is not healthy first.",
        )
    return verdict(True, _after(after))


def may_stop(members: Sequence[Member], wanted: Iterable[str], last_voter: bool = False) -> Verdict:
    """Decide about stopping members, given by id or name, simultaneously. They remain members.

    ``last_voter`` means that the policy allows the cluster to be without etcd while its only member restarts. Raise
    DomainError for a member that does not exist.
    """
    targets = _named(members, wanted)
    now = standing(members)
    stopped = sum(not each.learner and each.health == HEALTHY for each in targets)
    after = Standing(now.voters, now.healthy - stopped)
    if now.voters == stopped == 1:
        return Verdict(last_voter, _last("stopped", last_voter), after, targets)
    if after.has_quorum:
        return Verdict(True, _after(after), after, targets)
    if not now.has_quorum:
        reason = f"etcd has no quorum ({now}, {now.quorum} needed). {_REPAIR}"
    elif now.voters == 2:
        reason = "A cluster of two members stops when either of them stops. Add a third member, or remove one, first."
    else:
        reason = f"etcd would lose its quorum ({after}, {after.quorum} needed). Wait until more members are healthy."
    return Verdict(False, reason, after, targets)


def _last(done: str, agreed: bool) -> str:
    if agreed:
        return f"the last voter of etcd may be {done}, as was agreed"
    return f"it is the last voter of etcd. It is {done} only if this is explicitly agreed to."


def _after(after: Standing) -> str:
    return f"{after}; after this, {after.may_fail} of {after.voters} may fail"


def _known(members: Iterable[Member]) -> str:
    return f"The members are {listing(f'{each.label} ({each.id})' if each.name else each.label for each in members)}."


def _named(members: Sequence[Member], wanted: Iterable[str]) -> tuple[Member, ...]:
    found = {}
    for name in wanted:
        member = find(members, name)
        if member is None:
            raise DomainError(f"Error while looking for the member {name} of etcd: there is none. {_known(members)}")
        found[member.id] = member
    return tuple(found.values())
