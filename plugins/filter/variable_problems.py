# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible.utils.vars import load_extra_vars

from ..plugin_utils._inventory import files, names, variable_files, variables
from ..plugin_utils._inventory.cluster import GROUP_VARIABLES, unused_groups
from ..plugin_utils._inventory.references import Scope
from ..plugin_utils._inventory.sources import problems as source_problems
from ..plugin_utils._progress.text import printable

DOCUMENTATION = r"""
name: variable_problems
short_description: Find problems in the variables of hosts before connecting to any host
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Validates the variables of hosts against the argument specifications of all roles of this collection, and finds
    names that are probably misspelled or that no role reads, and files of variables that Ansible does not read.
  - A value that refers to facts is not known yet and is validated by the role. References to names that nothing defines
    are problems, and so are values that are encrypted with Ansible Vault if the password is missing.
  - It also finds contradictory values, on a single host and between the hosts of the cluster, and invalid networks and
    versions.
positional: _input, hosts, members, groups, later, sources, play_groups
options:
  _input:
    description: Variables of all hosts, C(hostvars).
    type: dict
    required: true
  hosts:
    description: Names of the hosts to check.
    type: list
    elements: str
    required: true
  members:
    description: Names of all hosts of the cluster, including those outside the run. The default is O(hosts).
    type: list
    elements: str
  groups:
    description:
      - Host names by group. If given, the groups C(cluster_control_plane_group), C(cluster_workers_group) and
        C(cluster_nfs_server_group) are also checked, and hosts that do not belong to any of these groups are reported.
    type: dict
  later:
    description: Names of variables that are not part of O(_input), to which templates may refer.
    type: list
    elements: str
    version_added: 0.2.0
  sources:
    description:
      - Paths of the inventory, C(ansible_inventory_sources). Files whose hosts are missing from O(_input), and files
        that give a host two different values, are problems.
    type: list
    elements: str
    version_added: 0.2.0
  play_groups:
    description: Names of the groups of control plane and workers that the plays use.
    type: list
    elements: str
    version_added: 0.2.0
"""

EXAMPLES = r"""
- name: Fail if a variable is invalid
  ansible.builtin.assert:
    that: hostvars | gpulab.kubernetes.variable_problems(groups['all']) | length == 0
"""

RETURN = r"""
_value:
  description: Problems, in the form that P(gpulab.kubernetes.preflight_report#filter) accepts.
  type: list
  elements: dict
"""


def variable_problems(
    hostvars: Mapping[str, Any],
    hosts: Sequence[str],
    members: Sequence[str] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    later: Sequence[str] = (),
    sources: Sequence[str] = (),
    play_groups: Sequence[str] = (),
) -> list[dict[str, str]]:
    known = variables.specification()
    everybody = hosts if members is None else members
    for host in (*hosts, *everybody):
        if host not in hostvars:
            raise AnsibleFilterError(f"Error while checking variables: there is no host {host}")
    # Ansible's own hostvars collect the variables of a host, and evaluate templates, each time they are asked.
    values = {host: hostvars[host] for host in dict.fromkeys((*everybody, *hosts))}
    members_values = {host: values[host] for host in everybody}
    found = list(source_problems(sources, set(hostvars)))
    if groups is not None:
        directory = playbook_directory(values.values())
        found += variable_files.find(sources, directory, groups, list(hostvars), are_errors=True)
    # An upgrade that failed may have come back to a version of before, which is kept by asking for it.
    is_upgrade = "nvidia_driver_upgrading" in later
    found += [
        problem
        for problem in variables.across(members_values, known, groups)
        if not (is_upgrade and problem.kind == "driver_version_unknown")
    ]
    group_names = {host: variables.known_values(GROUP_VARIABLES, each) for host, each in values.items()}
    found += unused_groups(group_names, _extra_variables(), play_groups)
    if groups is not None:
        found += variables.addresses(members_values)
        found += variables.servers(members_values, known, groups, hostvars)
        first = values[hosts[0]] if hosts else {}
        found += files.by_default(first, variables.known_values([files.PREFIX], first), later)
    raw_of = getattr(hostvars, "raw_get", hostvars.__getitem__)
    modes = variables.by_host(names.MODE, values)
    raw = {host: raw_of(host) for host in hosts}
    found += names.find(written(raw, hostvars), modes, known, are_errors=True)
    defined = {*known, *later}

    def other(host: str) -> Mapping[str, Any] | None:
        return raw_of(host) if host in hostvars else None

    for host in hosts:
        found += variables.find(host, values[host], known, Scope(raw[host], defined, other))
    return [_printable(problem.fields()) for problem in found]


def playbook_directory(hosts: Iterable[Mapping[str, Any]]) -> str:
    """Return the directory of the playbook of this run, next to which Ansible reads variables, too."""
    return next((str(values["playbook_dir"]) for values in hosts if "playbook_dir" in values), "")


def written(raw: Mapping[str, Mapping[str, Any]], hostvars: Any) -> dict[str, dict[str, Any]]:
    """Return the variables of hosts without those that earlier plays of the run have set (set_fact, register)."""
    manager, given = getattr(hostvars, "_variable_manager", None), set(_extra_variables())
    found = {}
    for host, own in raw.items():
        facts: set[str] = set()
        # The second has what set_fact set with cacheable, perhaps in an earlier run.
        for cache in ("_nonpersistent_fact_cache", "_fact_cache"):
            with contextlib.suppress(KeyError):
                facts.update(getattr(manager, cache, {}).get(host) or ())
        facts -= given
        found[host] = {name: value for name, value in own.items() if name not in facts}
    return found


def _printable(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a problem as a terminal can show it, whatever is in the values that it names."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}


def _extra_variables() -> Collection[str]:
    """Return the names of the variables of -e, as Ansible has kept them, or all if it keeps them elsewhere."""
    kept = getattr(load_extra_vars, "extra_vars", None)
    return kept if kept is not None else GROUP_VARIABLES


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"variable_problems": variable_problems}
