# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: awx_setting_problems
short_description: Find problems in the inventories and workflows for AWX
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Accepts values of any type, because files and extra variables may contain them.
positional: _input, workflows
options:
  _input:
    description: The inventories, each with C(name) and C(path).
    type: raw
    required: true
  workflows:
    description: >-
      The workflows, each with C(name) and C(nodes); a node has C(identifier), either C(job_template) or C(approval),
      and the nodes that follow it in C(success_nodes), C(failure_nodes) and C(always_nodes).
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Show the problems
  ansible.builtin.debug:
    msg: "{{ [{'name': 'lab'}] | gpulab.kubernetes.awx_setting_problems([]) }}"
"""

RETURN = r"""
_value:
  description: Descriptions of the problems. Empty if AWX can be configured.
  type: list
  elements: str
  sample: ["awx_configure_inventories: the entry lab needs a path inside the project"]
"""

_NEXT = ("success_nodes", "failure_nodes", "always_nodes")


def awx_setting_problems(inventories: Any, workflows: Any) -> list[str]:
    return [*_inventories(inventories), *_workflows(workflows)]


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
