# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._inventory import cluster, hosts
from ..plugin_utils._inventory.sources import absent
from ..plugin_utils._inventory.sources import problems as source_problems
from ..plugin_utils._progress.text import printable

DOCUMENTATION = r"""
name: inventory_hints
short_description: Find out why an inventory has no hosts in the groups that a run needs
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Looks for inventory files that do not exist or that Ansible could not read, and for groups whose names are similar
    or that other projects use for the same hosts.
positional: _input, names, sources
options:
  _input:
    description: Host names by group.
    type: dict
    required: true
  names:
    description: By the variable that names a group, the name of the group that the run needs.
    type: dict
    required: true
  sources:
    description: Paths of the inventory, C(ansible_inventory_sources).
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show why there is nothing to do
  ansible.builtin.debug:
    msg: "{{ groups | gpulab.kubernetes.inventory_hints({'docker_group': 'docker'}, ansible_inventory_sources) }}"
"""

RETURN = r"""
_value:
  description: Sentences, which end with what to do.
  type: str
"""


def inventory_hints(groups: Mapping[str, Sequence[str]], names: Mapping[str, str], sources: Sequence[str]) -> str:
    unread = [
        problem for problem in source_problems(sources, groups.get("all", [])) if problem.kind == "inventory_unread"
    ]
    found = [f"{problem.what}. {problem.do}." for problem in unread]
    found += [f"There is no file {source}." for source in absent(sources)]
    if found:
        return printable(" ".join(found))
    for variable, name in names.items():
        kind = variable.removeprefix("cluster_").removesuffix("_group")
        meant = hosts.likely_group(name, kind, groups, names.values()) if not groups.get(name) else ""
        if meant:
            hint = hosts.rename(meant, name, variable, groups)
            found.append(f"{hint[0].upper()}{hint[1:]}.")
    names_of_groups = [name for name in groups if name not in ("all", "ungrouped")]
    have = f"the groups {', '.join(names_of_groups)}" if names_of_groups else "no groups"
    found.append(f"The inventory has {have}. Give an inventory (-i FILE) with {_needed(names)}, and check --limit.")
    return printable(" ".join(found))


def _needed(names: Mapping[str, str]) -> str:
    if set(cluster.GROUPS) <= set(names):
        return "these groups"
    return f"this group, or name another one with -e {next(iter(names))}=GROUP"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"inventory_hints": inventory_hints}
