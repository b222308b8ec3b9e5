"""The stand-in for AWX's API refuses what AWX refuses; otherwise a test against it would prove nothing."""

from __future__ import annotations

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
    assert [made.update_status(3) for _round in range(3)] == ["running", "running", "successful"]
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
def test_what_awx_refuses_is_refused_and_nothing_is_kept(
    store: Store, endpoint: str, given: dict[str, Any], why: str
) -> None:
    before = json.dumps(store.objects)
    with pytest.raises(RefusedError, match=why):
        store.create(endpoint, given)
    assert json.dumps(store.objects) == before


def test_what_is_right_is_kept_and_changed(store: Store) -> None:
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
def test_a_wrong_survey_is_refused(store: Store, spec: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        store.set_survey(5, {"name": "", "description": "", "spec": spec})
    assert store.surveys == {}


def test_a_secret_is_kept_but_never_shown_and_inputs_that_are_not_given_are_gone(store: Store) -> None:
    inputs = {"username": "a", "password": "p"}
    made = store.create("credentials", {"name": "c", "credential_type": 1, "inputs": inputs})
    store.change("credentials", made["id"], {"inputs": {"password": SECRET}})
    assert made["inputs"] == {"password": "p"}


def test_a_project_that_cannot_be_checked_out_fails(store: Store) -> None:
    store.change("projects", 3, {"scm_url": "https://git.example.org/absent.git"})
    assert [store.update_status(3) for _round in range(3)][-1] == "failed"


def asked(url: str, token: str) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_it_lists_in_pages_searches_and_asks_for_credentials() -> None:
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
