# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the JSON of etcdctl and etcdutl (3.5 to 3.7). Pure functions; all raise DomainError for other texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._errors import DomainError
from .._json import as_mapping, as_object, as_objects, as_text, as_texts, read_json, read_object

# Health of a member. UNSTARTED was added to the cluster, but has never run.
HEALTHY, UNHEALTHY, UNKNOWN, UNSTARTED = "healthy", "unhealthy", "unknown", "unstarted"

_LARGEST = 2**64
_URL = re.compile(r"https?://[^\s,]+")
_NUMBERS = {
    "db_size": "dbSize",
    "db_size_in_use": "dbSizeInUse",
    "raft_index": "raftIndex",
    "raft_applied_index": "raftAppliedIndex",
    "raft_term": "raftTerm",
}
_ALARM = re.compile(r"memberID:(\d{1,20})\s+alarm:(\w+)")
# etcdctl reports each member as unhealthy if the cluster has an alarm, although the member has answered.
_ALARMED = "Active Alarm(s)"


@dataclass(frozen=True)
class Status:
    """What a member reports about itself. Sizes are in bytes; ``leader`` is empty without one."""

    version: str
    db_size: int
    db_size_in_use: int
    raft_index: int
    raft_applied_index: int
    raft_term: int
    leader: str
    # Alarms of all members, as (id, alarm).
    alarms: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Member:
    """A member; ``id`` is hexadecimal, ``name`` is empty until it has started, ``why`` explains bad health."""

    id: str
    name: str = ""
    peer_urls: tuple[str, ...] = ()
    client_urls: tuple[str, ...] = ()
    learner: bool = False
    health: str = UNKNOWN
    why: str = ""
    status: Status | None = None
    alarms: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.name or f"{self.id} (not started)"


def member_of(facts: Mapping[str, Any]) -> Member:
    """Return a member from the result of etcd_info, without its status."""
    return Member(
        as_text(facts.get("id")),
        as_text(facts.get("name")),
        tuple(as_texts(facts.get("peer_urls"))),
        learner=facts.get("learner") is True,
        health=as_text(facts.get("health")) or UNKNOWN,
        why=as_text(facts.get("why")),
    )


@dataclass(frozen=True)
class Snapshot:
    """What a snapshot contains. ``size`` is in bytes, without the checksum at the end of the file."""

    hash: str
    revision: int
    total_keys: int
    size: int


def read_members(text: str) -> list[Member]:
    """Return the members in ``member list``, in etcd's order, with unknown health."""
    what = "etcd's list of members"
    found = []
    for each in as_objects(read_object(text, what).get("members"), what):
        urls = {key: _urls(each.get(key), f"{key} in {what}") for key in ("peerURLs", "clientURLs")}
        identity, learner = _id(each.get("ID"), what), each.get("isLearner") is True
        found.append(Member(identity, as_text(each.get("name")), urls["peerURLs"], urls["clientURLs"], learner))
    if not found or len({each.id for each in found}) < len(found):
        raise DomainError(f"Error while reading {what}: it has no members, or one of them twice")
    return found


def read_health(text: str) -> dict[str, str]:
    """Return why each endpoint in ``endpoint health`` is unhealthy, empty if it is healthy."""
    what = "the health of etcd's members"
    found = {}
    for each in as_objects(read_json(text, what), what):
        said = as_text(each.get("error"))
        answered = each.get("health") is True or said.startswith(_ALARMED)
        found[as_text(each.get("endpoint"))] = "" if answered else said or "no reason was given"
    return found


def read_status(text: str) -> dict[str, Status]:
    """Return the status of the members in ``endpoint status``, by id."""
    what = "the status of etcd's members"
    found = {}
    for each in as_objects(read_json(text, what), what):
        status = as_object(each.get("Status"), what)
        errors = status.get("errors")
        texts = map(as_text, errors if isinstance(errors, list) else [])
        alarms = [alarm for said in texts for alarm in _ALARM.findall(said)]
        found[_id(as_mapping(status.get("header")).get("member_id"), what)] = Status(
            version=as_text(status.get("version")),
            leader=_id(status["leader"], what) if status.get("leader") else "",
            alarms=tuple((_id(int(member), what), alarm) for member, alarm in alarms),
            **{name: _number(status, key, what) for name, key in _NUMBERS.items()},
        )
    return found


def read_snapshot(text: str) -> Snapshot:
    """Return the output of ``snapshot status``."""
    what = "the status of the snapshot"
    found = read_object(text, what)
    numbers = [_number(found, key, what) for key in ("hash", "revision", "totalKey", "totalSize")]
    if not all(numbers[1:]):
        raise DomainError(f"Error while reading {what}: it is empty")
    return Snapshot(f"{numbers[0]:x}", *numbers[1:])


def assess(members: list[Member], health: Mapping[str, str], status: Mapping[str, Status]) -> list[Member]:
    """Return the members with their health, their status, and their alarms.

    A learner does not answer as the voters do, so it is healthy if it reports its status.
    """
    alarms = sorted({each for one in status.values() for each in one.alarms})
    return [_assessed(each, health, status, [what for whose, what in alarms if whose == each.id]) for each in members]


def _assessed(member: Member, health: Mapping[str, str], status: Mapping[str, Status], alarms: list[str]) -> Member:
    found = replace(member, status=status.get(member.id), alarms=tuple(alarms))
    url = next(iter(member.client_urls), "")
    why = health.get(url)
    if not member.name:
        return replace(found, health=UNSTARTED, why="it has never started")
    if "CORRUPT" in alarms:
        return replace(found, health=UNHEALTHY, why="its data differs from that of the others (alarm CORRUPT)")
    if member.learner and found.status:
        return replace(found, health=HEALTHY)
    if why is None:
        return replace(found, health=UNKNOWN, why="it was not asked" if url else "it has no client URL")
    if not why and not found.status:
        # Such as the new member of a machine whose old one was not removed.
        return replace(found, health=UNKNOWN, why="another member answers at its URL, or its status is missing")
    return replace(found, health=UNHEALTHY if why else HEALTHY, why=why)


def _id(value: Any, what: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _LARGEST:
        raise DomainError(f"Error while reading {what}: the id of a member is missing or not valid")
    return f"{value:x}"


def _number(value: Mapping[str, Any], key: str, what: str) -> int:
    # Go omits numbers that are 0.
    found = value.get(key, 0)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < _LARGEST:
        raise DomainError(f"Error while reading {what}: {key} is not a number")
    return found


def _urls(value: Any, what: str) -> tuple[str, ...]:
    found = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(each, str) and _URL.fullmatch(each) for each in found):
        raise DomainError(f"Error while reading {what}: it is not a list of URLs")
    return tuple(found)
