# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._nodes.plan import host_of, plan

DOCUMENTATION = r"""
name: node_plan
short_description: Decide what a run does with each node and with the cluster
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Bare hosts do not wait for each other, so that a control plane is initialized while drivers are installed.
  - Nodes are changed in order, and only a few at a time if the change may interrupt their pods.
positional: _input, hostvars, control_planes
options:
  _input:
    description: Names of the hosts, in the order of the inventory.
    type: list
    elements: str
    required: true
  hostvars:
    description:
      - Variables by host, with the facts C(preflight_host), C(plan_pending), and C(plan_serial) that the roles
        C(preflight) and C(plan) set. A host without C(preflight_host) was not read.
    type: dict
    required: true
  control_planes:
    description: Names of the control planes.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Decide what the run does with each node
  ansible.builtin.set_fact:
    plan_nodes: "{{ ansible_play_hosts | gpulab.kubernetes.node_plan(hostvars, groups['control_plane']) }}"
"""

RETURN = r"""
_value:
  description: The plan.
  type: dict
  contains:
    hosts:
      description: The plan of each host, by its name.
      type: dict
      contains:
        step:
          description:
            - V(none) for a node with nothing to do, V(skip) for a host that was not read, V(create) for a host that
              initializes the cluster, V(join) or V(join_control_plane) for one that becomes a node, and V(change) for a
              node with pending changes.
          type: str
        member:
          description: Whether the host is a node already.
          type: bool
        interrupts:
          description: Whether the pending changes may interrupt the pods of the node.
          type: bool
        why:
          description: Reason for the step, empty for V(none).
          type: str
    cluster:
      description: The plan of the cluster.
      type: dict
      contains:
        exists:
          description: Whether there is a cluster, or may be one, because a control plane was not read.
          type: bool
        control_planes:
          description: Names of the control planes.
          type: list
          elements: str
        api_host:
          description: The control plane through which the API is reached. One that is a node already comes first.
          type: str
        joining:
          description: Hosts that join the cluster.
          type: list
          elements: str
        strategy:
          description: Strategy of the play that prepares the hosts.
          type: str
        serial:
          description: How many hosts this play prepares at a time.
          type: str
  sample:
    hosts:
      gpu1: {step: join, member: false, interrupts: false, why: the host is not a node yet}
    cluster:
      exists: true
      control_planes: [cp1]
      api_host: cp1
      joining: [gpu1]
      strategy: ansible.builtin.free
      serial: 100%
"""


def node_plan(
    names: Iterable[str], hostvars: Mapping[str, Any], control_planes: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    return plan([host_of(name, hostvars[name], control_planes) for name in names])


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"node_plan": node_plan}
