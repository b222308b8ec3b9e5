# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of etcdctl and etcdutl 3.5.33, 3.6.8 and 3.7.1, recorded from clusters of the same version.

Three members, of which cp3 was killed, and a learner that was never started; then one member with an alarm.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._etcd.members import (
    HEALTHY,
    UNHEALTHY,
    UNKNOWN,
    UNSTARTED,
    Member,
    Snapshot,
    Status,
    assess,
    read_health,
    read_members,
    read_snapshot,
    read_status,
)

RECORDED = json.loads(Path(__file__).parents[3].joinpath("fixtures/etcd_outputs.json").read_text())
VERSIONS = {"3.5": "3.5.33", "3.6": "3.6.8", "3.7": "3.7.1"}
PORTS = {"3.5": 236, "3.6": 237, "3.7": 238}


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def text(version: str, name: str) -> str:
    return json.dumps(RECORDED[version][name])


def assessed(version: str) -> dict[str, Member]:
    members = read_members(text(version, "list"))
    found = assess(members, read_health(text(version, "health")), read_status(text(version, "status")))
    return {each.name: each for each in found}


def test_each_version_lists_its_members(version: str) -> None:
    found = {each.name: each for each in read_members(text(version, "list"))}
    assert set(found) == {"cp1", "cp2", "cp3", ""}
    port = PORTS[version]
    assert found["cp2"].peer_urls == (f"https://127.0.0.1:{port}21",)
    assert found["cp2"].client_urls == (f"https://127.0.0.1:{port}20",)
    assert {each.learner: each.peer_urls for each in found.values()}[True] == (f"https://127.0.0.1:{port}41",)
    assert not found[""].client_urls
    header = RECORDED[version]["list"]["header"]
    assert found["cp1"].id == f"{header['member_id']:x}"


def test_each_version_shows_health_and_status(version: str) -> None:
    found = assessed(version)
    assert {name: each.health for name, each in found.items()} == {
        "cp1": HEALTHY,
        "cp2": HEALTHY,
        "cp3": UNHEALTHY,
        "": UNSTARTED,
    }
    assert found["cp3"].why == "context deadline exceeded"
    assert found["cp3"].status is None
    status = found["cp1"].status
    assert status is not None
    assert (status.version, status.db_size, status.db_size_in_use) == (VERSIONS[version], 20480, 16384)
    assert status.raft_index == status.raft_applied_index > 0 < status.raft_term
    assert status.leader in (found["cp1"].id, found["cp2"].id)


def test_a_member_without_a_quorum_has_no_leader(version: str) -> None:
    (status,) = list(read_status(text(version, "status without quorum")).values())
    assert (status.leader, status.alarms) == ("", ())


def test_a_member_with_an_alarm_still_answers(version: str) -> None:
    status = read_status(text(version, "alarmed status"))
    ((identity, one),) = list(status.items())
    assert one.alarms == ((identity, "NOSPACE"),)
    url = RECORDED[version]["alarmed health"][0]["endpoint"]
    member = Member(identity, "solo", client_urls=(url,))
    (found,) = assess([member], read_health(text(version, "alarmed health")), status)
    assert (found.health, found.alarms) == (HEALTHY, ("NOSPACE",))


def test_each_version_describes_a_snapshot(version: str) -> None:
    found = read_snapshot(text(version, "snapshot"))
    assert found == Snapshot(f"{RECORDED[version]['snapshot']['hash']:x}", 2, 10 if version == "3.5" else 1, 20480)


def status(**fields: Any) -> Status:
    return Status(**{**dict.fromkeys(Status.__annotations__, 0), "version": "", "leader": "", "alarms": (), **fields})


@pytest.mark.parametrize(
    ("member", "health", "known", "expected"),
    [
        (Member("a", "x", client_urls=("u",)), {"u": ""}, {"a": status()}, (HEALTHY, "")),
        (
            Member("a", "x", client_urls=("u",)),
            {"u": ""},
            {"b": status()},
            (UNKNOWN, "another member answers at its URL, or its status is missing"),
        ),
        (Member("a", "x", client_urls=("u",)), {"u": "down"}, {}, (UNHEALTHY, "down")),
        (Member("a", "x", client_urls=("u",)), {}, {"a": status()}, (UNKNOWN, "it was not asked")),
        (Member("a", "x"), {}, {}, (UNKNOWN, "it has no client URL")),
        (Member("a"), {}, {}, (UNSTARTED, "it has never started")),
        (
            Member("a", "x", client_urls=("u",)),
            {"u": ""},
            {"b": status(alarms=(("a", "CORRUPT"),))},
            (UNHEALTHY, "its data differs from that of the others (alarm CORRUPT)"),
        ),
        (Member("a", "x", client_urls=("u",)), {"u": ""}, {"a": status(alarms=(("b", "CORRUPT"),))}, (HEALTHY, "")),
        (
            Member("a", "x", learner=True, client_urls=("u",)),
            {"u": "etcdserver: rpc not supported for learner"},
            {"a": status()},
            (HEALTHY, ""),
        ),
        (Member("a", "x", learner=True, client_urls=("u",)), {"u": "down"}, {}, (UNHEALTHY, "down")),
    ],
)
def test_health_is_decided(
    member: Member, health: dict[str, str], known: dict[str, Status], expected: tuple[str, str]
) -> None:
    (found,) = assess([member], health, known)
    assert (found.health, found.why) == expected


@pytest.mark.parametrize(
    ("read", "given", "reason"),
    [
        (read_members, "", "it is not valid JSON"),
        (read_members, "[]", "it is not a JSON object"),
        (read_members, "{}", "it has no members"),
        (read_members, '{"members": [{"ID": 1, "name": "a"}, {"ID": 1, "name": "b"}]}', "one of them twice"),
        (read_members, '{"members": [{"name": "a"}]}', "id of a member is missing"),
        (read_members, '{"members": [{"ID": "--help"}]}', "id of a member is missing or not valid"),
        (read_members, '{"members": [{"ID": 1, "clientURLs": ["https://a,b"]}]}', "it is not a list of URLs"),
        (read_health, '{"health": true}', "it is not a JSON list"),
        (read_status, '[{"Endpoint": "a"}]', "it is not a JSON object"),
        (read_status, '[{"Status": {"header": {"member_id": 1}, "dbSize": "x"}}]', "dbSize is not a number"),
        (read_status, '[{"Status": {"header": {"member_id": 1}, "dbSize": -1}}]', "dbSize is not a number"),
        (read_snapshot, '{"hash": 1, "revision": 0, "totalKey": 0, "totalSize": 0}', "it is empty"),
    ],
)
def test_other_texts_are_refused(read: Any, given: str, reason: str) -> None:
    with pytest.raises(DomainError, match=reason):
        read(given)
