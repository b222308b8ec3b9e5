# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._nodes.disruption import decide

DOCUMENTATION = r"""
name: disruption
short_description: Decide what happens to the users of GPUs before a change that would interrupt them
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Users of GPUs are the pods to which the kubelet gave a GPU, and all other processes that have one open.
  - A policy other than V(drain) and V(ignore) refuses the change.
positional: _input, policy, node, change, processes, held
options:
  _input:
    description: Running pods that hold GPUs, as M(gpulab.kubernetes.gpu_pods_info) returns them.
    type: list
    elements: dict
    required: true
  policy:
    description: Value of C(cluster_disruption_policy).
    type: str
    required: true
  node:
    description: Name of the node.
    type: str
    required: true
  change:
    description: The change, as shown in the refusal.
    type: str
    required: true
  processes:
    description: Other processes, as M(gpulab.kubernetes.nvidia_driver_users_info) returns them.
    type: list
    elements: dict
    default: []
  held:
    description: >-
      Whether the node was cordoned, and drained if the policy says so. Pods that it runs now have started meanwhile,
      and are refused unless O(policy=ignore).
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Refuse to interrupt running pods
  ansible.builtin.fail:
    msg: "{{ found.refusal }}"
  when: found.refusal | length > 0
  vars:
    found: "{{ gpu_pods.pods | gpulab.kubernetes.disruption('refuse', 'gpu1', 'a restart of containerd') }}"
"""

RETURN = r"""
_value:
  description: The decision.
  type: dict
  contains:
    refusal:
      description: Why the change is refused, empty if it is not.
      type: str
    drain:
      description: Whether the node is drained first.
      type: bool
    warning:
      description: Which data the drain deletes, empty if none.
      type: str
  sample:
    refusal: ""
    drain: true
    warning: "Draining gpu1 deletes what pods have in emptyDir volumes: team/train: cache"
"""


def disruption(
    pods: Sequence[Mapping[str, Any]],
    policy: str,
    node: str,
    change: str,
    processes: Sequence[Mapping[str, Any]] = (),
    held: bool = False,
) -> dict[str, Any]:
    return decide(policy, node, change, pods, processes, held)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"disruption": disruption}
