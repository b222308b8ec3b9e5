# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._inventory import variables

DOCUMENTATION = r"""
name: variable_problems
short_description: Find what is wrong with the variables of hosts by themselves, before any host is reached
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Holds the variables of hosts against the argument specifications of all roles of this collection, and finds names
    that look like a misspelt one.
  - A value that refers to facts can't be known yet, and is left to the role.
  - Values that contradict each other are found, too, on one host and between all hosts of the cluster, and networks and
    versions that no cluster can have.
positional: _input, hosts, members, groups
options:
  _input:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  hosts:
    description: Names of the hosts to look at.
    type: list
    elements: str
    required: true
  members:
    description: Names of all hosts of the cluster, also of those that a run leaves out. The default is O(hosts).
    type: list
    elements: str
  groups:
    description:
      - The names of the hosts of each group, by group. Then the groups of the control plane and of the workers, which
        C(cluster_control_plane_group) and C(cluster_workers_group) name, are looked at, and hosts in no group, and the
        group of the NFS server, which C(cluster_nfs_server_group) names.
    type: dict
"""

EXAMPLES = r"""
- name: Stop when a variable is wrong
  ansible.builtin.assert:
    that: hostvars | gpulab.kubernetes.variable_problems(groups['all']) | length == 0
"""

RETURN = r"""
_value:
  description: The problems, as P(gpulab.kubernetes.preflight_report#filter) takes them.
  type: list
  elements: dict
"""


def variable_problems(
    hostvars: Mapping[str, Any],
    hosts: Sequence[str],
    members: Sequence[str] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> list[dict[str, str]]:
    known = variables.specification()
    everybody = hosts if members is None else members
    for host in (*hosts, *everybody):
        if host not in hostvars:
            raise AnsibleFilterError(f"Error while checking variables: there is no host {host}")
    found = list(variables.across({host: hostvars[host] for host in everybody}, known, groups))
    if groups is not None:
        found += variables.servers({host: hostvars[host] for host in everybody}, known, groups, hostvars)
    for host in hosts:
        found += variables.find(host, hostvars[host], known)
    return [problem.fields() for problem in found]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"variable_problems": variable_problems}
