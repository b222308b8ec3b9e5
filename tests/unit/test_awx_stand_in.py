"""The stand-in for AWX's API refuses what AWX refuses; otherwise tests against it would be meaningless."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from support import awx_stand_in
from support.awx_stand_in_store import SECRET, RefusedError, Store

URL = "https://git.example.org/cluster.git"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with an organization (2), a checked-out project (3), an inventory (4) and a job template (5)."""
    (tmp_path / "site.yml").write_text("- hosts: all\n")
    made = Store({URL: tmp_path})
    made.create("organizations", {"name": "one"})
    made.create("projects", {"name": "p", "organization": 2, "scm_type": "git", "scm_url": URL})
    assert [made.project_status(3) for _round in range(3)] == ["running", "running", "successful"]
    made.create("inventories", {"name": "i", "organization": 2})
    made.create("job_templates", {"name": "t", "project": 3, "inventory": 4, "playbook": "site.yml"})
    return made


TEMPLATE = {"name": "other", "project": 3, "inventory": 4, "playbook": "site.yml"}
SCHEDULE = {"name": "s", "unified_job_template": 5, "rrule": "DTSTART:20260101T030000Z RRULE:FREQ=DAILY;INTERVAL=1"}
REFUSED = [
    ("organizations", {"name": "one"}, "already exists"),
    ("organizations", {"name": ""}, "may not be blank"),
    ("organizations", {}, "required"),
    ("organizations", {"name": "two", "colour": "red"}, "no such field"),
    ("job_templates", {**TEMPLATE, "name": "t"}, "already exists"),
    ("job_templates", {**TEMPLATE, "inventory": 99}, "does not exist"),
    ("job_templates", {**TEMPLATE, "inventory": "i"}, "Expected int"),
    ("job_templates", {**TEMPLATE, "survey_enabled": "yes"}, "Expected bool"),
    ("job_templates", {**TEMPLATE, "job_type": "scan"}, "not a valid choice"),
    ("job_templates", {**TEMPLATE, "playbook": "absent.yml"}, "Playbook not found"),
    ("inventory_sources", {"name": "s", "inventory": 4, "source": "scm"}, "Project required"),
    ("credentials", {"name": "c", "credential_type": 1, "inputs": {"passwort": "x"}}, "Invalid inputs"),
    ("schedules", {**SCHEDULE, "rrule": "RRULE:FREQ=DAILY;INTERVAL=1"}, "DTSTART"),
    ("schedules", {**SCHEDULE, "rrule": "DTSTART:20260101T030000Z RRULE:FREQ=DAILY"}, "INTERVAL"),
    ("schedules", {**SCHEDULE, "extra_data": {"x": 1}}, "not allowed"),
    ("jobs", {}, "Not found"),
]


@pytest.mark.parametrize(("endpoint", "given", "why"), REFUSED)
def test_objects_that_awx_refuses_are_refused_and_not_stored(
    store: Store, endpoint: str, given: dict[str, Any], why: str
) -> None:
    before = json.dumps(store.objects)
    with pytest.raises(RefusedError, match=why):
        store.create(endpoint, given)
    assert json.dumps(store.objects) == before


def test_valid_objects_are_stored_and_changed(store: Store) -> None:
    made = store.create("schedules", SCHEDULE)
    assert made["enabled"] is True
    assert store.change("schedules", made["id"], {"enabled": False})["enabled"] is False
    with pytest.raises(RefusedError, match="not a valid choice"):
        store.change("job_templates", 5, {"job_type": "scan"})


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ([], "any items"),
        (
            [{"type": "integer", "question_name": "q", "variable": "v", "required": True, "default": "1"}],
            "fit the type",
        ),
        ([{"type": "number", "question_name": "q", "variable": "v", "required": True}], "is not one of"),
        ([{"type": "text", "question_name": "q", "variable": "v", "required": True}] * 2, "duplicated"),
        ([{"type": "text", "question_name": "q", "variable": "v"}], "'required' is missing"),
        ([{"type": "multiplechoice", "question_name": "q", "variable": "v", "required": True}], "specify choices"),
    ],
)
def test_an_invalid_survey_is_refused(store: Store, spec: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        store.set_survey(5, {"name": "", "description": "", "spec": spec})
    assert store.surveys == {}


def question(kind: str, **given: Any) -> dict[str, Any]:
    return {"type": kind, "question_name": "q", "variable": "v", "required": False, **given}


CHOICE = {"choices": ["a", "b"]}
# A question, the answers, and the job's variables or the reason why AWX does not launch it.
LAUNCHES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any] | str]] = [
    (question("integer", default=300), {}, {"v": 300}),
    (question("integer", default=300), {"v": 5}, {"v": 5}),
    (question("integer", default=""), {}, {}),
    (question("multiplechoice", default="a", **CHOICE), {}, {"v": "a"}),
    (question("multiplechoice", default="", **CHOICE), {}, {}),
    (question("multiplechoice", default="", **CHOICE), {"v": "b"}, {"v": "b"}),
    (question("text", default=""), {}, {"v": ""}),
    (question("text"), {}, {}),
    (question("text"), {"v": ""}, {"v": ""}),
    (question("text", default="x", required=True), {}, "'v' value missing"),
    (question("integer", default=300, required=True), {}, "'v' value missing"),
    (question("integer", default=""), {"v": ""}, "type integer"),
    (question("multiplechoice", default="", **CHOICE), {"v": ""}, "one of"),
]


@pytest.mark.parametrize(("asked", "answers", "expected"), LAUNCHES)
def test_a_launch_uses_valid_defaults_and_checks_answers_only(
    store: Store, asked: dict[str, Any], answers: dict[str, Any], expected: dict[str, Any] | str
) -> None:
    store.set_survey(5, {"name": "", "description": "", "spec": [asked]})
    assert store.launch(5, {}) == ({}, {}), "a survey that is switched off asks nothing"
    store.change("job_templates", 5, {"survey_enabled": True})
    schedule = {**SCHEDULE, "extra_data": answers}
    if isinstance(expected, str):
        with pytest.raises(RefusedError, match=expected):
            store.launch(5, answers)
        with pytest.raises(RefusedError, match=expected):
            store.create("schedules", schedule)
    else:
        assert store.launch(5, answers) == (expected, {})
        store.create("schedules", schedule)


def test_a_launch_ignores_answers_without_a_question(store: Store) -> None:
    assert store.launch(5, {"x": 1}) == ({}, {"x": 1})


def test_a_removed_object_is_also_removed_from_associations(store: Store) -> None:
    made = store.create("credentials", {"name": "c", "credential_type": 1})
    store.associate("job_templates", 5, "credentials", made)
    store.delete("credentials", made["id"])
    assert store.members("job_templates", 5, "credentials") == []
    with pytest.raises(RefusedError, match="Not found"):
        store.get("credentials", made["id"])


def test_a_secret_is_stored_but_never_shown_and_inputs_that_are_not_given_are_deleted(store: Store) -> None:
    inputs = {"username": "a", "password": "p"}
    made = store.create("credentials", {"name": "c", "credential_type": 1, "inputs": inputs})
    store.change("credentials", made["id"], {"inputs": {"password": SECRET}})
    assert made["inputs"] == {"password": "p"}


def test_a_project_that_cannot_be_checked_out_fails(store: Store) -> None:
    store.change("projects", 3, {"scm_url": "https://git.example.org/absent.git"})
    assert [store.project_status(3) for _round in range(3)][-1] == "failed"


def test_a_project_is_pending_while_awx_is_busy(store: Store) -> None:
    store.busy = True
    store.change("projects", 3, {"scm_branch": "other"})
    assert [store.project_status(3) for _round in range(4)] == ["pending"] * 4
    store.busy = False
    assert [store.project_status(3) for _round in range(3)][-1] == "successful"


KEY = "-----BEGIN {kind}PRIVATE KEY-----\n{data}\n-----END {kind}PRIVATE KEY-----\n"
OPENSSH = "openssh-key-v1\0\0\0\0\x04{cipher}..."
KEYS = [
    ("a key\n", {}, "Invalid certificate or key"),
    (KEY.format(kind="OPENSSH ", data="only for the test"), {}, "Invalid base64"),
    ("none", {"ssh_key_unlock": "p"}, "should not be set"),
    ("aes256-ctr", {}, "must be set"),
    (KEY.format(kind="RSA ", data="Proc-Type: 4,ENCRYPTED"), {}, "must be set"),
    (KEY.format(kind="ENCRYPTED ", data="AAAA"), {}, "must be set"),
    ("none", {}, ""),
    ("aes256-ctr", {"ssh_key_unlock": "p"}, ""),
]


@pytest.mark.parametrize(("key", "more", "why"), KEYS)
def test_a_key_that_awx_cannot_use_is_refused(store: Store, key: str, more: dict[str, str], why: str) -> None:
    if key in ("none", "aes256-ctr"):
        data = base64.b64encode(OPENSSH.format(cipher=key).encode()).decode()
        key = KEY.format(kind="OPENSSH ", data=data)
    given = {"name": "c", "credential_type": 1, "inputs": {"ssh_key_data": key, **more}}
    if not why:
        store.create("credentials", given)
        return
    with pytest.raises(RefusedError, match=why):
        store.create("credentials", given)


def asked(url: str, token: str, method: str = "GET") -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"}, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_lists_have_pages_and_searches_and_require_credentials() -> None:
    with awx_stand_in.running({}) as started:
        for number in range(3):
            started.store.create("organizations", {"name": f"o{number}"})
        address = f"{started.address}/api/v2/organizations/"
        first = asked(f"{address}?page_size=2", awx_stand_in.TOKEN)
        assert (first["count"], [one["name"] for one in first["results"]]) == (3, ["o0", "o1"])
        assert asked(started.address + first["next"], awx_stand_in.TOKEN)["results"][0]["name"] == "o2"
        found = asked(f"{address}?or__name=o0&or__name=o2", awx_stand_in.TOKEN)
        assert [one["name"] for one in found["results"]] == ["o0", "o2"]
        for url, token, status in ((address, "wrong", 401), (f"{address}?colour=red", awx_stand_in.TOKEN, 400)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                asked(url, token)
            assert refused.value.code == status
        assert started.changes == []


# The account, the path, the methods that AWX lists as allowed, and the result of a change.
RIGHTS: list[tuple[bool | None, set[int], str, set[str], int]] = [
    (True, set(), "organizations/", {"GET", "POST"}, 201),
    (False, set(), "organizations/", {"GET"}, 403),
    (False, {2}, "organizations/", {"GET"}, 403),
    (False, {2}, "organizations/2/", {"GET", "PUT"}, 200),
    (None, {2}, "organizations/2/", {"GET"}, 403),
]


@pytest.mark.parametrize(("administrator", "administers", "path", "listed", "status"), RIGHTS)
def test_the_permissions_of_an_account_are_listed_and_enforced(
    administrator: bool | None, administers: set[int], path: str, listed: set[str], status: int
) -> None:
    with awx_stand_in.running({}) as started:
        started.store.create("organizations", {"name": "one"})
        started.administrator, started.administers = administrator, administers
        told = asked(f"{started.address}/api/v2/{path}", awx_stand_in.TOKEN, "OPTIONS")
        assert set(told["actions"]) == listed
        method = "PATCH" if path.count("/") > 1 else "POST"
        try:
            found = started.answer(method, path, {}, {"name": "two"})[0]
        except RefusedError as refused:
            found = refused.status
        assert found == status
