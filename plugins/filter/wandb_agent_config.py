# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._wandb.agent import config

DOCUMENTATION = r"""
name: wandb_agent_config
short_description: Create the configuration of a W&B Launch agent
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Adds the entity, the queues, the number of jobs and the builder that fits the place of the agent.
positional: _input, queues
options:
  _input:
    description: >-
      C(resource) (V(kubernetes) or V(local-container)), C(place) (V(cluster) or V(host)), C(entity), C(max_jobs) (a
      negative number means the default), and C(config), W&B's own keys.
    type: dict
    required: true
  queues:
    description: Queues that the agent polls, as returned by the filter P(gpulab.kubernetes.wandb_queues#filter).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the configuration
  ansible.builtin.debug:
    msg: "{{ settings | gpulab.kubernetes.wandb_agent_config([{'name': 'gpu'}]) }}"
"""

RETURN = r"""
_value:
  description: The configuration of C(wandb launch-agent).
  type: dict
"""


def wandb_agent_config(settings: Mapping[str, Any], queues: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return config(settings, queues)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"wandb_agent_config": wandb_agent_config}
