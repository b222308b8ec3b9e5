# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._wandb.problems import Cluster, problems

DOCUMENTATION = r"""
name: wandb_launch_problems
short_description: Say what keeps queues of W&B Launch from working as they are declared
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Finds what the launch agent refuses, variables that don't fit, claims and namespaces that the cluster does not have,
    and jobs that may ask for more GPUs than a node has.
positional: _input, absent, own_namespace, nodes, namespaces, claims
options:
  _input:
    description: What P(gpulab.kubernetes.wandb_queues#filter) returned.
    type: list
    elements: dict
    required: true
  absent:
    description: Names of the queues that are to be deleted.
    type: list
    elements: str
    required: true
  own_namespace:
    description: Namespace of the agent, which need not be there yet.
    type: str
    required: true
  nodes:
    description: Nodes of the cluster, as the API gives them. Without them the cluster is not looked at.
    type: list
    elements: dict
  namespaces:
    description: Its namespaces.
    type: list
    elements: dict
  claims:
    description: Its claims.
    type: list
    elements: dict
"""

EXAMPLES = r"""
- name: Show what is in the way
  ansible.builtin.debug:
    msg: "{{ queues | gpulab.kubernetes.wandb_launch_problems([], 'wandb') }}"
"""

RETURN = r"""
_value:
  description: Sentences, each with what to do; none if nothing is in the way.
  type: list
  elements: str
"""


def wandb_launch_problems(
    queues: Sequence[Mapping[str, Any]],
    absent: Sequence[str],
    own_namespace: str,
    nodes: Sequence[Mapping[str, Any]] | None = None,
    namespaces: Sequence[Mapping[str, Any]] = (),
    claims: Sequence[Mapping[str, Any]] = (),
) -> list[str]:
    cluster = None if nodes is None else Cluster(nodes, namespaces, claims)
    return list(problems(queues, absent, cluster, own_namespace))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"wandb_launch_problems": wandb_launch_problems}
