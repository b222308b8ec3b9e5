"""Objects of the stand-in for AWX's API: fields, uniqueness, references.

Taken from the serializers and models of AWX 24.6.1, as far as the modules of awx.awx use them here. AWX ignores unknown
fields; the stand-in refuses them to detect misspelled ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Field:
    """One field: its type, its default, its choices, or the endpoint that it refers to."""

    kind: type = str
    default: Any = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    refers_to: str = ""

    def problem(self, value: Any) -> str:
        """Return what is wrong with a value that is not a reference, or an empty string."""
        if type(value) is not self.kind:
            return f"Expected {self.kind.__name__}, got {value!r}."
        if self.required and value in ("", None):
            return "This field may not be blank."
        return f'"{value}" is not a valid choice.' if self.choices and value not in self.choices else ""


@dataclass(frozen=True)
class Kind:
    """The kind of objects of one endpoint."""

    name: str
    unique: tuple[str, ...]
    fields: Mapping[str, Field]
    # Sent by the modules, but read-only in the API, which ignores them.
    ignored: tuple[str, ...] = ()
    associations: Mapping[str, str] = field(default_factory=dict)


TEXT = Field()
NAME = Field(required=True)
YES_NO = Field(bool, False)
NUMBER = Field(int, 0)
JOB_TYPE = Field(default="run", choices=("run", "check"))


def _to(endpoint: str, *, required: bool = False) -> Field:
    return Field(int, None, required, refers_to=endpoint)


_ORGANIZATION = _to("organizations")
_ASKED = ("job_type", "limit", "verbosity", "variables", "inventory", "credential", "tags", "skip_tags", "diff_mode")

KINDS: dict[str, Kind] = {
    "organizations": Kind("organization", ("name",), {"name": NAME, "description": TEXT}),
    "execution_environments": Kind(
        "execution_environment",
        ("name",),
        {
            "name": NAME,
            "description": TEXT,
            "image": Field(required=True),
            "pull": Field(choices=("", "always", "missing", "never")),
            "organization": _ORGANIZATION,
            "credential": _to("credentials"),
        },
    ),
    "credential_types": Kind("credential_type", ("name",), {"name": NAME, "kind": TEXT, "inputs": Field(dict, {})}),
    "credentials": Kind(
        "credential",
        ("organization", "name", "credential_type"),
        {
            "name": NAME,
            "description": TEXT,
            "organization": _ORGANIZATION,
            "credential_type": _to("credential_types", required=True),
            "inputs": Field(dict, {}),
        },
    ),
    "projects": Kind(
        "project",
        ("organization", "name"),
        {
            "name": NAME,
            "description": TEXT,
            "organization": _to("organizations", required=True),
            "scm_type": Field(choices=("", "git", "svn", "insights", "archive")),
            "scm_url": TEXT,
            "scm_branch": TEXT,
            "scm_clean": YES_NO,
            "scm_update_on_launch": YES_NO,
            "scm_update_cache_timeout": NUMBER,
            "timeout": NUMBER,
            "default_environment": _to("execution_environments"),
            "credential": _to("credentials"),
        },
    ),
    "inventories": Kind(
        "inventory",
        ("organization", "name"),
        {
            "name": NAME,
            "description": TEXT,
            "organization": _to("organizations", required=True),
            "kind": Field(choices=("", "smart", "constructed")),
            "host_filter": Field(default=None),
            "variables": TEXT,
        },
    ),
    "inventory_sources": Kind(
        "inventory_source",
        ("inventory", "name"),
        {
            "name": NAME,
            "description": TEXT,
            "inventory": _to("inventories", required=True),
            "source": Field(required=True, choices=("scm", "ec2", "controller")),
            "source_path": TEXT,
            "source_project": _to("projects"),
            "execution_environment": _to("execution_environments"),
            "overwrite": YES_NO,
            "overwrite_vars": YES_NO,
            "update_on_launch": YES_NO,
            "update_cache_timeout": NUMBER,
        },
    ),
    "job_templates": Kind(
        "job_template",
        ("organization", "name"),
        {
            "name": NAME,
            "description": TEXT,
            "job_type": JOB_TYPE,
            "inventory": _to("inventories", required=True),
            "project": _to("projects", required=True),
            "playbook": Field(required=True),
            "execution_environment": _to("execution_environments"),
            "extra_vars": TEXT,
            "forks": NUMBER,
            "timeout": NUMBER,
            "diff_mode": YES_NO,
            "survey_enabled": YES_NO,
            **{f"ask_{name}_on_launch": YES_NO for name in _ASKED},
        },
        ignored=("organization",),
        associations={"credentials": "credentials"},
    ),
    "workflow_job_templates": Kind(
        "workflow_job_template",
        ("organization", "name"),
        {
            "name": NAME,
            "description": TEXT,
            "organization": _ORGANIZATION,
            "survey_enabled": YES_NO,
            "inventory": _to("inventories"),
            "ask_inventory_on_launch": YES_NO,
        },
    ),
    # Only created through a workflow node; its name need not be unique.
    "workflow_approval_templates": Kind(
        "workflow_approval_template", (), {"name": NAME, "description": TEXT, "timeout": NUMBER}
    ),
    "workflow_job_template_nodes": Kind(
        "workflow_job_template_node",
        ("workflow_job_template", "identifier"),
        {
            "identifier": NAME,
            "workflow_job_template": _to("workflow_job_templates", required=True),
            "unified_job_template": _to("unified_job_templates"),
        },
        ignored=("type",),
        associations=dict.fromkeys(("success_nodes", "failure_nodes", "always_nodes"), "workflow_job_template_nodes"),
    ),
    "schedules": Kind(
        "schedule",
        ("unified_job_template", "name"),
        {
            "name": NAME,
            "description": TEXT,
            "unified_job_template": _to("unified_job_templates", required=True),
            "rrule": Field(required=True),
            "enabled": Field(bool, True),
            "extra_data": Field(dict, {}),
            "inventory": _to("inventories"),
        },
    ),
}
# One list of everything that can be launched; IDs are unique across it.
UNIFIED = ("projects", "inventory_sources", "job_templates", "workflow_job_templates", "workflow_approval_templates")
# AWX's built-in credential types, and which of their inputs are secret.
CREDENTIAL_TYPES = {
    "Machine": {
        "username": False,
        "password": True,
        "ssh_key_data": True,
        "ssh_key_unlock": True,
        "become_method": False,
        "become_username": False,
        "become_password": True,
    },
    "Source Control": {"username": False, "password": True, "ssh_key_data": True, "ssh_key_unlock": True},
    "Container Registry": {"host": False, "username": False, "password": True, "verify_ssl": False},
    "Vault": {"vault_password": True, "vault_id": False},
}
