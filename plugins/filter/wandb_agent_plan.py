# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._wandb.place import Host, decide

DOCUMENTATION = r"""
name: wandb_agent_plan
short_description: Check where a W&B Launch agent runs, and how images that it builds reach the cluster
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Checks that the agent does not already run in another place, that its image exists and, for an agent on a host, that
    the host can build images with Docker and that the cluster gets them.
positional: _input, accounts, nodes, host, socket
options:
  _input:
    description: >-
      The agent's C(name), C(place) (V(cluster) or V(host)), C(host), C(chart), C(config) (as W&B takes it), C(user)
      on the host, C(image), and whether a registry has it (C(image_state)).
    type: dict
    required: true
  accounts:
    description: ServiceAccounts with the agent's name in its namespace.
    type: list
    elements: dict
    required: true
  nodes:
    description: Nodes of the cluster, as returned by the API.
    type: list
    elements: dict
    required: true
  host:
    description: >-
      The C(name) and C(addresses) of the host of the agent, and the C(version) and C(plugins) of its Docker. Empty if
      it was not read.
    type: dict
    required: true
  socket:
    description: Path of the socket through which an agent on the node loads images into containerd.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what is in the way
  ansible.builtin.debug:
    msg: "{{ (agent | gpulab.kubernetes.wandb_agent_plan(accounts, nodes, {}, '')).problems }}"
"""

RETURN = r"""
_value:
  description: >-
    C(problems), messages with a solution, and C(load), how images are loaded into the cluster: the path of the socket,
    a command that reads an archive, or empty. C(socket_state) says whether the units of the socket are needed.
  type: dict
"""


def wandb_agent_plan(
    agent: Mapping[str, Any],
    accounts: Sequence[Mapping[str, Any]],
    nodes: Sequence[Mapping[str, Any]],
    host: Mapping[str, Any],
    socket: str,
) -> dict[str, Any]:
    decision = decide(agent, accounts, nodes, Host(**host) if host else None, socket)
    return {
        "problems": list(decision.problems),
        "load": decision.load,
        "socket_state": "present" if decision.load == socket else "absent",
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"wandb_agent_plan": wandb_agent_plan}
