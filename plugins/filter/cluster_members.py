# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._inventory import hosts, variables
from ..plugin_utils._progress.text import printable

DOCUMENTATION = r"""
name: cluster_members
short_description: Describe which hosts of the inventory are in the cluster
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Lists the control plane and the workers with their numbers and addresses, and the hosts of other groups, which are
    not in the cluster.
positional: _input, names, groups, run
options:
  _input:
    description: Variables of all hosts, C(hostvars).
    type: dict
    required: true
  names:
    description: Names of the groups of the control plane and of the workers.
    type: list
    elements: str
    required: true
  groups:
    description: Host names by group.
    type: dict
    required: true
  run:
    description: Hosts of this run.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show who is in the cluster
  ansible.builtin.debug:
    msg: "{{ hostvars | gpulab.kubernetes.cluster_members(names, groups, ansible_play_hosts_all) }}"
  vars:
    names: [control_plane, workers]
"""

RETURN = r"""
_value:
  description: The text, one line for each kind of host.
  type: str
"""


def cluster_members(
    hostvars: Mapping[str, Any], names: Sequence[str], groups: Mapping[str, Sequence[str]], run: Sequence[str]
) -> str:
    wanted = dict(zip(("Control plane", "Workers"), names))
    members = [host for name in names for host in groups.get(name, [])]
    places = variables.places({host: hostvars[host] for host in members})
    return "\n".join(printable(line) for line in hosts.lines(wanted, groups, places, run))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cluster_members": cluster_members}
