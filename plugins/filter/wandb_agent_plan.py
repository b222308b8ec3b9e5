# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._wandb import agent, place

DOCUMENTATION = r"""
name: wandb_agent_plan
short_description: Plan the configuration and the place of a W&B Launch agent
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates the configuration of the agent with the builder that fits its place, and its environment, except for the
    key.
  - Checks that the agent of a cluster does not already run in another place, that its image exists and, for an agent on
    a host, that the host can build images with Docker and that the cluster gets them.
positional: _input, queues, found
options:
  _input:
    description:
      - The C(resource) (V(kubernetes) or V(local-container)) and the agent's C(name), C(entity), C(max_jobs) (a
        negative number means the default), C(config) (W&B's own keys), C(env), C(base_url), C(http_proxy),
        C(https_proxy), C(no_proxy) (a list), C(ca_bundle) (empty if there are no own certificate authorities), and the
        C(directory) of its files on a host.
      - For V(kubernetes) also its C(place) (V(cluster) or V(host)), C(host), C(chart) and C(image), its C(user) on the
        host, and the C(socket) through which an agent on the node loads images into containerd.
    type: dict
    required: true
  queues:
    description: Queues that the agent polls, as returned by the filter P(gpulab.kubernetes.wandb_queues#filter).
    type: list
    elements: dict
    required: true
  found:
    description:
      - What the cluster has - C(nodes), ServiceAccounts with the agent's name in its namespace (C(accounts)), and
        EndpointSlices of the Service C(kubernetes) (C(slices)) - and whether a registry has the image (C(image_state)).
      - C(host) is the C(name) and C(addresses) of the host of the agent, and the C(version) and C(plugins) of its
        Docker. Empty if it was not read.
      - For V(local-container), nothing of it is needed.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what is in the way
  ansible.builtin.debug:
    msg: "{{ (settings | gpulab.kubernetes.wandb_agent_plan(queues, found))['problems'] }}"
"""

RETURN = r"""
_value:
  description: The plan.
  type: dict
  contains:
    config:
      description: The configuration of C(wandb launch-agent).
      type: dict
    environment:
      description: Environment variables by name.
      type: dict
    problems:
      description: Messages, each with a solution.
      type: list
    socket_state:
      description: Whether the units of the socket are needed (V(present) or V(absent)).
      type: str
"""


def wandb_agent_plan(
    settings: Mapping[str, Any], queues: Sequence[Mapping[str, Any]], found: Mapping[str, Any]
) -> dict[str, Any]:
    config = agent.config(settings, queues)
    decision, api = place.Decision(), ""
    if settings["resource"] == "kubernetes":
        decision = place.plan_place(settings, config.get("builder") or {}, found)
        api = place.server_name(found["slices"])
    return {
        "config": config,
        "environment": agent.environment(settings, decision.load, api),
        "problems": list(decision.problems),
        "socket_state": "present" if decision.load and decision.load == settings["socket"] else "absent",
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"wandb_agent_plan": wandb_agent_plan}
