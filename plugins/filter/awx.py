# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._filter_errors import filter_errors
from ..plugin_utils._report.origin import collection_version
from ..plugin_utils._report.read import dictionary, text

DOCUMENTATION = r"""
name: awx
short_description: Internal filters for AWX
extends_documentation_fragment: gpulab.kubernetes.internal
"""

_ROOT = Path(__file__).resolve().parents[2]
_NEXT = ("success_nodes", "failure_nodes", "always_nodes")
# Setting -> what it is.
_NEEDED = {
    "awx_configure_image": "the address of the execution environment in your registry",
    "awx_configure_project_url": "the address of your repository",
}


@filter_errors("choosing the credentials of AWX")
def awx_credentials(credentials: Sequence[Mapping[str, Any]], known: Sequence[str]) -> dict[str, Any]:
    """Decide which credentials are created in AWX, and what uses them."""
    chosen: dict[str, Any] = {"made": [], "used": {}, "left_out": [], "problems": []}
    for each in credentials:
        files = {name: str(Path(path).expanduser()) for name, path in each["secrets"].items() if path}
        there = each["name"] in known
        chosen["problems"] += [
            f"{path}, which should contain {name} of the credential {each['name']}, is not a readable file"
            for name, path in files.items()
            if not os.access(path, os.R_OK) or not Path(path).is_file()
        ]
        if not there and each.get("required") and not files:
            chosen["problems"].append(f"AWX has no credential {each['name']} yet, and {each['required']} is empty")
        if there or files:
            chosen["made"].append(each)
            chosen["used"].setdefault(each["used_by"], []).append(each["name"])
        else:
            chosen["left_out"].append(each["name"])
    return chosen


def awx_run(revision: Any, checked: Any, root: Path = _ROOT) -> dict[str, Any]:
    """Compare what an AWX job runs with what was approved."""
    run = {"project": text(revision), "collection": _collection(root)}
    return {"run": run, "problem": _problem(run, dictionary(checked))}


def _problem(run: Mapping[str, str], checked: Mapping[str, Any]) -> str:
    if not run["project"]:
        return "AWX does not tell the revision of the project, so it is unknown whether this is what was approved"
    if not checked:
        return "no job of this workflow has recorded what was approved"
    different = [name for name, value in run.items() if checked.get(name) != value]
    told = [f"the {name} was {text(checked.get(name)) or 'unknown'} and is {run[name]}" for name in different]
    return f"this is not what was approved: {', and '.join(told)}" if told else ""


def _collection(root: Path) -> str:
    version = collection_version(root)
    try:
        manifest = dictionary(json.loads((root / "MANIFEST.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return version
    return f"{version} sha256:{text(dictionary(manifest.get('file_manifest_file')).get('chksum_sha256'))}"


def awx_secrets(files: Mapping[str, str], there: Mapping[str, Any], update: bool = False) -> dict[str, str]:
    """Read the missing secrets of an AWX credential."""
    try:
        return {name: _secret(name, path) for name, path in files.items() if path and (update or not there.get(name))}
    except (OSError, UnicodeDecodeError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"Error while reading the secrets for AWX: {error}") from error


def _secret(name: str, path: str) -> str:
    content = Path(path).expanduser().read_text(encoding="utf-8")
    return content if name == "ssh_key_data" else content.rstrip("\r\n")


def awx_setting_problems(settings: Mapping[str, Any]) -> list[str]:
    """Find problems in the settings for AWX."""
    return [
        *_environment_problems(settings),
        *(f"{name} is empty ({what})" for name, what in _NEEDED.items() if not _filled(settings.get(name))),
        *_fork_problems(settings.get("awx_configure_forks")),
        *_inventory_problems(settings.get("awx_configure_inventories")),
        *_workflow_problems(settings.get("awx_configure_workflows")),
    ]


def _environment_problems(settings: Mapping[str, Any]) -> Iterator[str]:
    if not _filled(settings.get("CONTROLLER_HOST")):
        yield "CONTROLLER_HOST is not set in the environment (the address of AWX, such as https://awx.example.org)"
    token, user, password = (settings.get(f"CONTROLLER_{name}") for name in ("OAUTH_TOKEN", "USERNAME", "PASSWORD"))
    if not _filled(token) and not (_filled(user) and _filled(password)):
        yield (
            "neither CONTROLLER_OAUTH_TOKEN nor CONTROLLER_USERNAME and CONTROLLER_PASSWORD are set in the environment"
        )


def _fork_problems(given: Any) -> Iterator[str]:
    if isinstance(given, bool) or not re.fullmatch(r"[1-9][0-9]*", str(given), re.ASCII):
        yield f"awx_configure_forks must be the number of hosts on which a job works at a time, not {given!r:.60}"


def _inventory_problems(given: Any) -> Iterator[str]:
    variable = "awx_configure_inventories"
    if not _mappings(given) or not given:
        yield f"{variable} must be a list, each entry with a name and a path"
        return
    yield from _name_problems(variable, [entry.get("name") for entry in given])
    for entry in given:
        if not _filled(entry.get("path")):
            yield f"{variable}: the entry {entry.get('name')} needs a path inside the project" + (
                " (awx_configure_inventory_path is empty)" if len(given) == 1 else ""
            )


def _workflow_problems(given: Any) -> Iterator[str]:
    variable = "awx_configure_workflows"
    if not _mappings(given) or not all(_mappings(entry.get("nodes")) for entry in given):
        yield f"{variable} must be a list, each entry with a name and a list of nodes"
        return
    yield from _name_problems(variable, [entry.get("name") for entry in given])
    nodes = [(entry, node) for entry in given for node in entry["nodes"]]
    yield from _name_problems(f"{variable}, nodes", [node.get("identifier") for _entry, node in nodes], "identifier")
    for entry, node in nodes:
        where = f"{variable}: the node {node.get('identifier')} of {entry.get('name')}"
        if bool(node.get("job_template")) == bool(node.get("approval")):
            yield f"{where} needs either a job_template or an approval"
        known = [other.get("identifier") for other in entry["nodes"]]
        after = [name for key in _NEXT for name in node.get(key) or []]
        if unknown := [str(name) for name in after if name not in known]:
            yield f"{where} leads to {', '.join(unknown)}, which that workflow does not have"


def _name_problems(variable: str, names: list[Any], key: str = "name") -> Iterator[str]:
    if not all(_filled(name) for name in names):
        yield f"{variable}: an entry has no {key}"
    elif twice := sorted({name for name in names if names.count(name) > 1}):
        yield f"{variable}: {', '.join(twice)} occurs more than once"


def _mappings(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(entry, Mapping) for entry in given)


def _filled(given: Any) -> bool:
    return isinstance(given, str) and bool(given.strip())


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "awx_credentials": awx_credentials,
            "awx_run": awx_run,
            "awx_secrets": awx_secrets,
            "awx_setting_problems": awx_setting_problems,
        }
