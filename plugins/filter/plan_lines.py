# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: plan_lines
short_description: Return a plan as lines of text
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Hosts with the same pending changes share their lines. Hosts without pending changes are omitted.
positional: _input
options:
  _input:
    description: Pending changes by host, each as a list by role, as returned by P(gpulab.kubernetes.host_plan#filter).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what is pending
  ansible.builtin.debug:
    msg: "{{ {'gpu1': {'host': ['swap']}, 'gpu2': {'host': ['swap']}} | gpulab.kubernetes.plan_lines }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
  sample: ["gpu1, gpu2:", "  host: swap"]
"""


def plan_lines(plans: Mapping[str, Mapping[str, Iterable[str]]]) -> list[str]:
    hosts: dict[tuple[str, ...], list[str]] = {}
    for host, plan in plans.items():
        lines = tuple(f"  {role}: {', '.join(changes)}" for role, changes in plan.items())
        hosts.setdefault(lines, []).append(host)
    return [line for lines, names in hosts.items() if lines for line in (f"{', '.join(names)}:", *lines)]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"plan_lines": plan_lines}
