# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._wandb.problems import Cluster, DockerHost, problems

DOCUMENTATION = r"""
name: wandb_launch_problems
short_description: Find what prevents W&B Launch queues from working as declared
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Finds jobs that the launch agent refuses, invalid variables, missing claims and namespaces, and jobs that may
    request more GPUs than a node, or a host with Docker, has.
positional: _input, absent, own_namespace, nodes, namespaces, claims, docker
options:
  _input:
    description: Result of P(gpulab.kubernetes.wandb_queues#filter).
    type: list
    elements: dict
    required: true
  absent:
    description: Names of the queues to delete.
    type: list
    elements: str
    required: true
  own_namespace:
    description: Namespace of the agent, which need not exist yet.
    type: str
    required: true
  nodes:
    description: Nodes of the cluster, as returned by the API. If omitted, the cluster is not checked.
    type: list
    elements: dict
  namespaces:
    description: Namespaces of the cluster.
    type: list
    elements: dict
  claims:
    description: Claims in the cluster.
    type: list
    elements: dict
  docker:
    description:
      - The host that runs jobs as containers. C(version) is the version of Docker (empty if Docker does not respond),
        and C(gpus) the number of GPUs. If omitted, no host is checked.
    type: dict
"""

EXAMPLES = r"""
- name: Show the problems
  ansible.builtin.debug:
    msg: "{{ queues | gpulab.kubernetes.wandb_launch_problems([], 'wandb') }}"
"""

RETURN = r"""
_value:
  description: Messages, each with a solution. Empty if there are no problems.
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
    docker: Mapping[str, Any] | None = None,
) -> list[str]:
    cluster = None if nodes is None else Cluster(nodes, namespaces, claims)
    return list(problems(queues, absent, cluster, own_namespace, DockerHost(**docker) if docker else None))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"wandb_launch_problems": wandb_launch_problems}
