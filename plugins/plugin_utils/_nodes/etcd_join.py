# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether a control plane may join with a new member of etcd, and which members are removed before. Pure.

kubeadm adds a member as a learner and promotes it. etcd allows a single learner, and each member that does not answer
costs a join minutes. So what earlier joins have left is removed first, and nothing is added next to a dead voter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...module_utils._etcd.members import HEALTHY, Member, member_of
from ...module_utils._etcd.quorum import Standing, standing
from ...module_utils._json import as_mappings
from ...module_utils._kubeadm.kubeconfig import host_port
from ...module_utils._words import listing

_PEER_PORT = 2380
_REPLACE = (
    "Start its machine. If it is lost, replace it with gpulab.kubernetes.replace_node or remove it with "
    "gpulab.kubernetes.remove_node"
)


@dataclass(frozen=True)
class Machine:
    """A control plane by its inventory name, with the name and the address of its node."""

    host: str
    node: str
    address: str

    def owns(self, member: Member) -> bool:
        return owns(member, self.node, [self.address])


def owns(member: Member, node: str, addresses: Sequence[str]) -> bool:
    """Return whether a member of etcd is that of a node; one that never started has no name, only its URL."""
    urls = {f"https://{host_port(each, _PEER_PORT)}" for each in addresses if each}
    return member.name == node if member.name else not urls.isdisjoint(member.peer_urls)


def machine_of(name: str, variables: Mapping[str, Any]) -> Machine:
    """Return a machine from the facts of preflight."""
    found = variables.get("preflight_host") or {}
    return Machine(name, str(found.get("node_name") or name), str(found.get("node_address") or ""))


def join_plan(
    etcd: Mapping[str, Any], own: Machine, joining: Sequence[Machine], resumes: bool
) -> dict[str, list[str] | str]:
    """Return the ids of members to ``remove``, and the ``problem`` that forbids the join, as sentences, empty if none.

    ``etcd`` is the result of etcd_info, ``own`` the machine that joins, ``joining`` all machines that join in this run.
    ``resumes``: whether an interrupted join of it begins again, so that its data is moved aside. An ``etcd`` that was
    not asked, as in check mode before its tools are installed, forbids nothing.
    """
    if "members" not in etcd:
        return {"remove": [], "problem": ""}
    members = [member_of(each) for each in as_mappings(etcd.get("members"))]
    left = [
        each for each in members if own.owns(each) or (_is_unfinished(each) and any(one.owns(each) for one in joining))
    ]
    others = [each for each in members if each not in left]
    mine = [each for each in left if own.owns(each)]
    return {
        "remove": [each.id for each in left],
        "problem": " ".join(_problems(standing(members), mine, others, resumes)),
    }


def _problems(now: Standing, mine: Sequence[Member], others: Sequence[Member], resumes: bool) -> Iterator[str]:
    if not now.has_quorum:
        yield (
            f"etcd has no quorum ({now}, {now.quorum} needed), so it can't add a member. Start the control planes that "
            "have stopped; if they are lost, restore a backup (docs/restore.md)."
        )
        return
    healthy = [each.label for each in mine if each.health == HEALTHY and not each.learner]
    if healthy and not resumes:
        yield (
            f"{listing(healthy)} is a healthy member of etcd, but this host has no control plane: another machine has "
            "its name. Give each host its own name."
        )
    dead = [each for each in others if each.health != HEALTHY]
    if dead:
        why = listing(f"{each.label} ({each.why or each.health})" for each in dead)
        yield f"not all members of etcd are healthy: {why}. {_REPLACE}, and run this again."
    learners = [each.label for each in others if each.learner and each not in dead]
    if learners:
        yield f"{listing(learners)} is still a learner of etcd, and it allows a single one. Run this with that host."


def _is_unfinished(member: Member) -> bool:
    return member.learner or not member.name
