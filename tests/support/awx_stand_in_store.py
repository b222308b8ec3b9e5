"""State of the stand-in for AWX's API, and the rules for accepting an object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import awx_keys, awx_project, awx_survey
from support.awx_stand_in_fields import CREDENTIAL_TYPES, KINDS, UNIFIED, Field, Kind

Item = dict[str, Any]
SECRET = "$encrypted$"


class RefusedError(Exception):
    """A request that AWX would refuse: HTTP status and response."""

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        super().__init__(f"{status}: {json.dumps(answer)}")
        self.status = status
        self.answer = answer


@dataclass
class Store:
    """All objects by endpoint and ID. `repositories` are the addresses that can be checked out, with their files."""

    repositories: Mapping[str, Path]
    objects: dict[str, dict[int, Item]] = field(default_factory=lambda: {endpoint: {} for endpoint in KINDS})
    associated: dict[tuple[str, int, str], list[int]] = field(default_factory=dict)
    surveys: dict[int, Item] = field(default_factory=dict)
    polls: dict[int, int] = field(default_factory=dict)
    # While True, no project is checked out, as if AWX had no capacity.
    busy: bool = False
    last_id: int = 0

    def __post_init__(self) -> None:
        for name, inputs in CREDENTIAL_TYPES.items():
            described = {"fields": [{"id": key, "secret": secret} for key, secret in inputs.items()]}
            self.create("credential_types", {"name": name, "kind": "ssh", "inputs": described})
        # AWX has a separate ID counter for each kind.
        self.last_id = 1

    def all(self, endpoint: str) -> list[Item]:
        """Return the objects of a list; raise RefusedError if there is no such list."""
        if endpoint == "unified_job_templates":
            return [item for one in UNIFIED for item in self.objects[one].values()]
        if endpoint not in self.objects:
            raise RefusedError(404, {"detail": "Not found."})
        return list(self.objects[endpoint].values())

    def get(self, endpoint: str, number: int) -> Item:
        """Return an object; raise RefusedError if it does not exist."""
        found = next((item for item in self.all(endpoint) if item["id"] == number), None)
        if found is None:
            raise RefusedError(404, {"detail": "Not found."})
        return found

    def create(self, endpoint: str, given: Mapping[str, Any]) -> Item:
        if endpoint not in KINDS:
            raise RefusedError(404, {"detail": "Not found."})
        kind = KINDS[endpoint]
        values = {name: field.default for name, field in kind.fields.items()} | self._accepted(kind, given)
        absent = [name for name, one in kind.fields.items() if one.required and name not in given]
        if absent:
            raise RefusedError(400, {name: ["This field is required."] for name in absent})
        self._check(endpoint, values, None)
        self.last_id += 1
        self.objects[endpoint][self.last_id] = {"id": self.last_id, **values}
        return self._synchronised(endpoint, self.objects[endpoint][self.last_id], {})

    def change(self, endpoint: str, number: int, given: Mapping[str, Any]) -> Item:
        item = self.get(endpoint, number)
        accepted = self._accepted(KINDS[endpoint], given)
        if endpoint == "credentials" and "inputs" in accepted:
            # SECRET stands for the stored value; inputs that are not given are deleted.
            kept = {key: item["inputs"].get(key) for key, value in accepted["inputs"].items() if value == SECRET}
            accepted["inputs"] = accepted["inputs"] | kept
        self._check(endpoint, item | accepted, number)
        before = dict(item)
        item.update(accepted)
        return self._synchronised(endpoint, item, before)

    def members(self, endpoint: str, number: int, association: str) -> list[int]:
        """Return the IDs of the associated objects; raise RefusedError if there is no such association."""
        if endpoint not in KINDS or association not in KINDS[endpoint].associations:
            raise RefusedError(404, {"detail": "Not found."})
        return self.associated.setdefault((endpoint, self.get(endpoint, number)["id"], association), [])

    def associate(self, endpoint: str, number: int, association: str, given: Mapping[str, Any]) -> None:
        members = self.members(endpoint, number, association)
        other = self.get(KINDS[endpoint].associations[association], given["id"])["id"]
        if given.get("disassociate"):
            members.remove(other)
        elif other not in members:
            members.append(other)

    def set_survey(self, number: int, spec: Any) -> None:
        for problem in awx_survey.problems(spec):
            raise RefusedError(400, {"error": problem})
        self.surveys[number] = spec

    def launch(self, number: int, answers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the extra variables of a job that is launched with these answers, and the ignored answers."""
        template = self.get("job_templates", number)
        survey = self._survey_of(number)
        if wrong := awx_survey.refusals(survey, answers):
            raise RefusedError(400, {"variables_needed_to_start": wrong})
        ignored = {name: answers[name] for name in awx_survey.unasked(survey, answers)}
        accepted = {name: value for name, value in answers.items() if name not in ignored}
        return json.loads(template["extra_vars"] or "{}") | awx_survey.job_variables(survey, accepted), ignored

    def delete(self, endpoint: str, number: int) -> None:
        """Remove an object, also from associations."""
        del self.objects[endpoint][self.get(endpoint, number)["id"]]
        self.associated = {key: kept for key, kept in self.associated.items() if key[:2] != (endpoint, number)}
        for (owner, _, association), members in self.associated.items():
            if KINDS[owner].associations[association] == endpoint and number in members:
                members.remove(number)

    def organization_of(self, endpoint: str, item: Item) -> int | None:
        """A job template belongs to the organization of its project."""
        owner = self.objects["projects"][item["project"]] if endpoint == "job_templates" else item
        found: int | None = owner.get("organization")
        return found

    def value(self, endpoint: str, item: Item, path: str) -> str:
        """Return the value that a search compares: a field, or one of a referenced object (`organization__name`)."""
        name, _, rest = path.partition("__")
        if name not in {"id", "organization", *KINDS[endpoint].fields}:
            raise RefusedError(400, {"detail": f"The stand-in can't search {endpoint} for {path}."})
        found = self.organization_of(endpoint, item) if name == "organization" else item[name]
        if not rest:
            return str(found)
        other = KINDS[endpoint].fields[name].refers_to
        return self.value(other, self.objects[other][found], rest) if found in self.objects.get(other, {}) else ""

    def _accepted(self, kind: Kind, given: Mapping[str, Any]) -> Item:
        accepted = {name: value for name, value in given.items() if name not in kind.ignored}
        unknown = set(accepted) - set(kind.fields)
        if unknown:
            raise RefusedError(400, {name: [f"The stand-in knows no such field of a {kind.name}."] for name in unknown})
        wrong = {name: [why] for name, value in accepted.items() if (why := self._wrong(kind.fields[name], value))}
        if wrong:
            raise RefusedError(400, wrong)
        return accepted

    def _wrong(self, known: Field, value: Any) -> str:
        if value is None and known.default is None and not known.required:
            return ""
        why = known.problem(value)
        if not why and known.refers_to and value not in {item["id"] for item in self.all(known.refers_to)}:
            return f'Invalid pk "{value}" - object does not exist.'
        return why

    def _check(self, endpoint: str, values: Item, number: int | None) -> None:
        kind = KINDS[endpoint]

        def identity(item: Item) -> tuple[Any, ...]:
            return tuple(self.organization_of(endpoint, item) if k == "organization" else item[k] for k in kind.unique)

        others = [item for item in self.objects[endpoint].values() if item["id"] != number]
        if kind.unique and identity(values) in map(identity, others):
            raise RefusedError(400, {"__all__": [f"{kind.name} with this {', '.join(kind.unique)} already exists."]})
        wrong: dict[str, Any] = dict(getattr(self, f"_check_{kind.name}", lambda _values: ())(values))
        if wrong:
            raise RefusedError(400, wrong)

    def _check_credential(self, values: Item) -> Iterator[tuple[str, Any]]:
        known = {one["id"] for one in self.objects["credential_types"][values["credential_type"]]["inputs"]["fields"]}
        if unknown := sorted(set(values["inputs"]) - known):
            yield "inputs", [f"Invalid inputs: {unknown}"]
        elif wrong := awx_keys.problems(values["inputs"]):
            yield "inputs", wrong

    def _check_job_template(self, values: Item) -> Iterator[tuple[str, list[str]]]:
        project = self.objects["projects"][values["project"]]
        if values["playbook"] not in project.get("playbook_files", []):
            yield "playbook", ["Playbook not found for project."]
        try:
            json.loads(values["extra_vars"] or "{}")
        except ValueError:
            yield "extra_vars", ["Cannot parse as JSON."]

    def _check_inventory_source(self, values: Item) -> Iterator[tuple[str, list[str]]]:
        if values["source"] == "scm" and not values["source_project"]:
            yield "source_project", ["Project required for scm type sources."]

    def _check_schedule(self, values: Item) -> Iterator[tuple[str, list[str]]]:
        rrule = values["rrule"]
        if not re.match(r"DTSTART(;TZID=[\w/]+:\d{8}T\d{6}|:\d{8}T\d{6}Z) ", rrule):
            yield "rrule", ["Valid DTSTART required in rrule. Value should start with: DTSTART:YYYYMMDDTHHMMSSZ"]
        elif not re.search(r" RRULE:\S*INTERVAL=\d+", rrule):
            yield "rrule", ["INTERVAL required in rrule"]
        survey = self._survey_of(values["unified_job_template"])
        template = self.get("unified_job_templates", values["unified_job_template"])
        if values["inventory"] and not template.get("ask_inventory_on_launch"):
            yield "inventory", ["Field is not configured to prompt on launch."]
        if unasked := awx_survey.unasked(survey, values["extra_data"]):
            yield "extra_data", [f"Variables {', '.join(unasked)} are not allowed on launch."]
        if wrong := awx_survey.refusals(survey, values["extra_data"]):
            yield "variables_needed_to_start", wrong

    def _survey_of(self, number: int) -> list[dict[str, Any]]:
        """Return the questions of a template if its survey is enabled."""
        template = self.objects["job_templates"].get(number, {})
        questions: list[dict[str, Any]] = self.surveys.get(number, {}).get("spec", [])
        return questions if template.get("survey_enabled") else []

    def _synchronised(self, endpoint: str, item: Item, before: Item) -> Item:
        """Check a project out again if its source has changed, as AWX does."""
        sources = ("scm_type", "scm_url", "scm_branch")
        if endpoint == "projects" and item["scm_type"] and any(item[key] != before.get(key) for key in sources):
            self.polls[item["id"]] = 0
        return item

    def project_status(self, number: int) -> str:
        """Return the checkout status of a project; each request advances it by a step, unless AWX is busy."""
        project = self.get("projects", number)
        if number not in self.polls:
            return "ok"
        if self.busy and self.polls[number] < 3:
            return "pending"
        self.polls[number] += 1
        if self.polls[number] < 3:
            return "running"
        if project["scm_url"] not in self.repositories:
            return "failed"
        project["playbook_files"] = awx_project.playbooks(self.repositories[project["scm_url"]])
        return "successful"
