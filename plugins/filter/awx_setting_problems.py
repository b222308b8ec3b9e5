# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: awx_setting_problems
short_description: Find problems in the settings for AWX
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Accepts values of any type, because files and extra variables may contain them.
options:
  _input:
    description:
      - A dictionary with the environment variables C(CONTROLLER_HOST), C(CONTROLLER_OAUTH_TOKEN),
        C(CONTROLLER_USERNAME) and C(CONTROLLER_PASSWORD), and the variables C(awx_configure_image),
        C(awx_configure_project_url), C(awx_configure_forks), C(awx_configure_inventories) and
        C(awx_configure_workflows). What is not set is missing or empty.
      - An inventory has C(name) and C(path). A workflow has C(name) and C(nodes); a node has C(identifier), either
        C(job_template) or C(approval), and the nodes that follow it in C(success_nodes), C(failure_nodes) and
        C(always_nodes).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the problems
  ansible.builtin.debug:
    msg: "{{ {'CONTROLLER_HOST': ''} | gpulab.kubernetes.awx_setting_problems }}"
"""

RETURN = r"""
_value:
  description: Descriptions of the problems. Empty if AWX can be configured.
  type: list
  elements: str
  sample: ["awx_configure_inventories: the entry lab needs a path inside the project"]
"""

_NEXT = ("success_nodes", "failure_nodes", "always_nodes")
# Setting -> what it is.
_NEEDED = {
    "awx_configure_image": "the address of the execution environment in your registry",
    "awx_configure_project_url": "the address of your repository",
}


def awx_setting_problems(settings: Mapping[str, Any]) -> list[str]:
    return [
        *_environment(settings),
        *(f"{name} is empty ({what})" for name, what in _NEEDED.items() if not _text(settings.get(name))),
        *_forks(settings.get("awx_configure_forks")),
        *_inventories(settings.get("awx_configure_inventories")),
        *_workflows(settings.get("awx_configure_workflows")),
    ]


def _environment(settings: Mapping[str, Any]) -> Iterator[str]:
    if not _text(settings.get("CONTROLLER_HOST")):
        yield "CONTROLLER_HOST is not set in the environment (the address of AWX, such as https://awx.example.org)"
    token, user, password = (settings.get(f"CONTROLLER_{name}") for name in ("OAUTH_TOKEN", "USERNAME", "PASSWORD"))
    if not _text(token) and not (_text(user) and _text(password)):
        yield (
            "neither CONTROLLER_OAUTH_TOKEN nor CONTROLLER_USERNAME and CONTROLLER_PASSWORD are set in the environment"
        )


def _forks(given: Any) -> Iterator[str]:
    if isinstance(given, bool) or not re.fullmatch(r"[1-9][0-9]*", str(given), re.ASCII):
        yield f"awx_configure_forks must be the number of hosts on which a job works at a time, not {given!r:.60}"


def _inventories(given: Any) -> Iterator[str]:
    variable = "awx_configure_inventories"
    if not _mappings(given) or not given:
        yield f"{variable} must be a list, each entry with a name and a path"
        return
    yield from _names(variable, [entry.get("name") for entry in given])
    for entry in given:
        if not _text(entry.get("path")):
            yield f"{variable}: the entry {entry.get('name')} needs a path inside the project" + (
                " (awx_configure_inventory_path is empty)" if len(given) == 1 else ""
            )


def _workflows(given: Any) -> Iterator[str]:
    variable = "awx_configure_workflows"
    if not _mappings(given) or not all(_mappings(entry.get("nodes")) for entry in given):
        yield f"{variable} must be a list, each entry with a name and a list of nodes"
        return
    yield from _names(variable, [entry.get("name") for entry in given])
    nodes = [(entry, node) for entry in given for node in entry["nodes"]]
    yield from _names(f"{variable}, nodes", [node.get("identifier") for _entry, node in nodes], "identifier")
    for entry, node in nodes:
        where = f"{variable}: the node {node.get('identifier')} of {entry.get('name')}"
        if bool(node.get("job_template")) == bool(node.get("approval")):
            yield f"{where} needs either a job_template or an approval"
        known = [other.get("identifier") for other in entry["nodes"]]
        after = [name for key in _NEXT for name in node.get(key) or []]
        if unknown := [str(name) for name in after if name not in known]:
            yield f"{where} leads to {', '.join(unknown)}, which that workflow does not have"


def _names(variable: str, names: list[Any], key: str = "name") -> Iterator[str]:
    if not all(_text(name) for name in names):
        yield f"{variable}: an entry has no {key}"
    elif twice := sorted({name for name in names if names.count(name) > 1}):
        yield f"{variable}: {', '.join(twice)} occurs more than once"


def _mappings(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(entry, Mapping) for entry in given)


def _text(given: Any) -> bool:
    return isinstance(given, str) and bool(given.strip())


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"awx_setting_problems": awx_setting_problems}
