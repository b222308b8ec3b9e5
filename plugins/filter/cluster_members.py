# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Callable

from ansible import context

from ..module_utils._words import counted
from ..plugin_utils._inventory import hosts, variables
from ..plugin_utils._progress.text import printable
from .run_commands import run_commands

DOCUMENTATION = r"""
name: cluster_members
short_description: Describe which hosts of the inventory are in the cluster
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Lists the control plane and the workers with their numbers and addresses, and the hosts of other groups, which are
    not in the cluster.
  - If the run only checks the inventory, it ends with what is right, and the next command.
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
    lines = [printable(line) for line in hosts.lines(wanted, groups, places, run)]
    return "\n".join([*lines, *_closing(hostvars, names, groups)])


def _closing(hostvars: Mapping[str, Any], names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the end of a run that only checks the inventory."""
    playbooks = [PurePath(str(each)).name for each in context.CLIARGS.get("args") or ()]
    if playbooks not in (["gpulab.kubernetes.inventory"], ["inventory.yml"]):
        return []
    control_planes, workers = (dict.fromkeys(groups.get(name, [])) for name in names)
    given = [hostvars[host].get("cluster_expected_gpus") for host in workers]
    gpus = sum(int(each) for each in given if str(each).isdecimal())
    counts = [counted(len(control_planes), "control plane"), counted(len(workers), "worker")]
    expected = f", {counted(gpus, 'GPU')} expected" * bool(gpus)
    return [
        f"The inventory is right: {', '.join(counts)}{expected}. Nothing was contacted.",
        run_commands("Next: ansible-playbook gpulab.kubernetes.preflight -i INVENTORY"),
    ]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cluster_members": cluster_members}
