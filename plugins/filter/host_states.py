# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ansible.module_utils.parsing.convert_bool import boolean

DOCUMENTATION = r"""
name: host_states
short_description: Combine the states of several roles into one list
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - The result is for M(gpulab.kubernetes.host_state). Each state is named C(role/state).
  - States whose C(when) is false are omitted before templates in their arguments are evaluated.
positional: _input, roles
options:
  _input:
    description: States by role name.
    type: dict
    required: true
  roles:
    description: Roles to include, in the order of the result. Templates in the other roles are not evaluated.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Read which changes are pending on the host
  gpulab.kubernetes.host_state:
    states: "{{ {'host': [{'name': 'swap', 'module': 'swap'}]} | gpulab.kubernetes.host_states(['host']) }}"
  check_mode: true
  register: reading
"""

RETURN = r"""
_value:
  description: Combined list of states.
  type: list
  elements: dict
  sample: [{name: host/swap, module: swap, args: {}}]
"""


def host_states(states: Mapping[str, Iterable[Mapping[str, Any]]], roles: Iterable[str]) -> list[dict[str, Any]]:
    # Ansible evaluates a value of a variable when it is read.
    return [
        {"name": f"{role}/{state['name']}", "module": state["module"], "args": state.get("args", {})}
        for role in roles
        for state in states[role]
        if boolean(state.get("when", True))
    ]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"host_states": host_states}
