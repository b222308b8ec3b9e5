# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._wandb.queue import declared

DOCUMENTATION = r"""
name: wandb_queues
short_description: Convert declared W&B Launch queues to arguments of the module wandb_queue
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates the Job, or the options of C(docker run), of each queue, with C({{name}}) for its variables, so that
    playbooks don't need to contain them.
positional: _input, namespace, tolerations, env, authorities
options:
  _input:
    description: Value of C(wandb_launch_queues).
    type: list
    elements: dict
    required: true
  namespace:
    description: Default namespace of the jobs.
    type: str
    required: true
  tolerations:
    description: Default tolerations of the jobs.
    type: list
    elements: dict
    required: true
  env:
    description: Environment variables of all jobs. Those of a queue take precedence.
    type: dict
    default: {}
  authorities:
    description: Name of the ConfigMap with certificate authorities, which jobs in a cluster trust. Empty means none.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show the arguments of a queue
  ansible.builtin.debug:
    msg: "{{ [{'name': 'gpu', 'gpus': 1}] | gpulab.kubernetes.wandb_queues('default', []) }}"
"""

RETURN = r"""
_value:
  description: >-
    For each queue name, C(resource), C(resource_args), C(template_variables), C(prioritization), and C(unused), the
    settings that have no effect for a queue of this type.
  type: list
  elements: dict
"""


def wandb_queues(
    queues: Sequence[Mapping[str, Any]],
    namespace: str,
    tolerations: Sequence[Mapping[str, Any]],
    env: Mapping[str, Any] | None = None,
    authorities: str = "",
) -> list[dict[str, Any]]:
    defaults: dict[str, Any] = {"namespace": namespace, "tolerations": list(tolerations)}
    defaults |= {"environment": dict(env or {}), "authorities": authorities}
    return [declared(queue, defaults) for queue in queues]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"wandb_queues": wandb_queues}
