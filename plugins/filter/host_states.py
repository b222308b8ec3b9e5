# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: host_states
short_description: Put the states of several roles into one list
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - The result is for M(gpulab.kubernetes.host_state). Each state is called C(role/state).
positional: _input
options:
  _input:
    description: The states of each role, by its name.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Read what is pending on the host
  gpulab.kubernetes.host_state:
    states: "{{ {'host': [{'name': 'swap', 'module': 'swap'}]} | gpulab.kubernetes.host_states }}"
  check_mode: true
  register: reading
"""

RETURN = r"""
_value:
  description: All of them.
  type: list
  elements: dict
  sample: [{name: host/swap, module: swap}]
"""


def host_states(roles: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    return [{**state, "name": f"{role}/{state['name']}"} for role, states in roles.items() for state in states]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"host_states": host_states}
