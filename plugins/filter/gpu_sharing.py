# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils._errors import DomainError
from ..module_utils._nvidia import sharing as rules

DOCUMENTATION = r"""
name: gpu_sharing
short_description: Determine the resources that a host offers with a given kind of GPU sharing
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the declaration of how pods share the GPUs of a host, and returns the resources that the host offers and their
    amounts.
  - Fails with a list of all problems in the declaration.
positional: _input, gpus, parts
options:
  _input:
    description: Declaration, as in C(nvidia_device_plugin_sharing).
    type: dict
    required: true
  gpus:
    description: Number of GPUs of the host.
    type: int
    required: true
  parts:
    description: Profiles of each partitioned GPU, as returned by M(gpulab.kubernetes.nvidia_mig).
    type: list
    elements: list
    default: []
"""

EXAMPLES = r"""
- name: Show the resources of 2 GPUs that 4 pods each share
  ansible.builtin.debug:
    msg: "{{ ({'mode': 'time_slicing', 'replicas': 4} | gpulab.kubernetes.gpu_sharing(2)).amounts }}"
"""

RETURN = r"""
_value:
  description: Result of the declaration.
  type: dict
  contains:
    mode:
      description: The mode.
      type: str
    replicas:
      description: Number of pods that share a GPU.
      type: int
    strategy:
      description: The device plugin's MIG strategy.
      type: str
    name:
      description: Name of the device plugin's configuration.
      type: str
    layout:
      description: Layout for M(gpulab.kubernetes.nvidia_mig), null if no GPU is partitioned.
      type: raw
    amounts:
      description: Amount of each resource that the host offers.
      type: dict
"""


def gpu_sharing(declaration: Mapping[str, Any], gpus: int, parts: Sequence[Sequence[str]] = ()) -> dict[str, Any]:
    try:
        sharing = rules.read(declaration)
    except DomainError as error:
        raise AnsibleFilterError(str(error)) from error
    return {
        "mode": sharing.mode,
        "replicas": sharing.replicas,
        "strategy": sharing.strategy,
        "name": sharing.name,
        "layout": sharing.layout,
        "amounts": rules.offers(sharing, int(gpus), parts),
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"gpu_sharing": gpu_sharing}
