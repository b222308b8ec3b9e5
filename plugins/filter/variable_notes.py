# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ansible import context

from ..module_utils._problem import Problem
from ..plugin_utils._inventory import names, notes, variable_files, variables
from ..plugin_utils._progress.text import printable
from .variable_problems import playbook_directory, written

DOCUMENTATION = r"""
name: variable_notes
short_description: List what may be a mistake in the variables of hosts before connecting to any host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Finds variables that no role of this collection reads but whose names other projects use, too, and files of
    variables that belong to no group or host.
  - With O(_input) setting C(cluster_unknown_variables) to C(warn), all variables that no role reads are listed.
positional: _input, hosts, groups, sources
options:
  _input:
    description: As for P(gpulab.kubernetes.variable_problems#filter).
    type: dict
    required: true
  hosts:
    description: As for P(gpulab.kubernetes.variable_problems#filter).
    type: list
    elements: str
    required: true
  groups:
    description: As for P(gpulab.kubernetes.variable_problems#filter).
    type: dict
  sources:
    description: As for P(gpulab.kubernetes.variable_problems#filter).
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show what no role reads
  ansible.builtin.debug:
    msg: "{{ hostvars | gpulab.kubernetes.variable_notes(groups['all']) }}"
"""

RETURN = r"""
_value:
  description: One text for each note.
  type: list
  elements: str
  sample:
    - >-
      gpu1, gpu2: Nothing in this collection reads driver_version. Unless it is your own, write nvidia_driver_version
      (auto, or a whole version such as 595.91.07).
"""


def variable_notes(
    hostvars: Mapping[str, Any],
    hosts: Sequence[str],
    groups: Mapping[str, Sequence[str]] | None = None,
    sources: Sequence[str] = (),
) -> list[str]:
    raw_of = getattr(hostvars, "raw_get", hostvars.__getitem__)
    values = {host: hostvars[host] for host in hosts}
    found: list[Problem] = []
    if groups is not None:
        directory = playbook_directory(values.values())
        found += variable_files.find(sources, directory, groups, list(hostvars), are_errors=False)
        playbooks = [str(name) for name in context.CLIARGS.get("args") or [] if Path(str(name)).is_file()]
        found += variable_files.of_importing_playbooks(playbooks, sources, directory)
    raw = {host: raw_of(host) for host in hosts}
    modes = variables.by_host(names.MODE, values)
    found += names.find(written(raw, hostvars), modes, variables.specification(), are_errors=False)
    for host, each in values.items():
        found += notes.connections(host, variables.known_values(notes.CONNECTION, each))
    return [printable(text) for text in notes.texts(found)]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"variable_notes": variable_notes}
