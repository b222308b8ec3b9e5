# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: plan_execution
short_description: Determine the execution order of hosts with pending changes
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Bare hosts do not wait for each other, so that a control plane is initialized while drivers are installed.
  - Nodes in use are changed in order, and only a few at a time if the change may interrupt their pods.
positional: _input
options:
  _input:
    description: >-
      Variables of hosts, each with the facts C(plan_pending), C(plan_in_use), C(plan_interrupts), and C(plan_serial)
      that the role C(plan) sets. Hosts without these facts are ignored.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Prepare the hosts
  hosts: all
  strategy: "{{ (hostvars.values() | gpulab.kubernetes.plan_execution)['strategy'] }}"
  serial: "{{ (hostvars.values() | gpulab.kubernetes.plan_execution)['serial'] }}"
"""

RETURN = r"""
_value:
  description: The keywords C(strategy) and C(serial) of the play.
  type: dict
  sample: {strategy: ansible.builtin.free, serial: 100%}
"""


def plan_execution(hosts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    pending = [host for host in hosts if host.get("plan_pending")]
    in_use = [host for host in pending if host["plan_in_use"]]
    interrupted = [host for host in in_use if host["plan_interrupts"]]
    return {
        "strategy": f"ansible.builtin.{'free' if pending and not in_use else 'linear'}",
        "serial": str(interrupted[0]["plan_serial"]) if interrupted else "100%",
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"plan_execution": plan_execution}
