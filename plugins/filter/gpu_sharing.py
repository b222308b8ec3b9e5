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
short_description: Tell what a host offers that shares its GPUs in a certain way
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads how pods share the GPUs of a host, and tells which resources the host offers then, and how much of each.
  - Fails with everything that is wrong with the declaration.
positional: _input, gpus, parts
options:
  _input:
    description: The declaration, as C(nvidia_device_plugin_sharing) holds it.
    type: dict
    required: true
  gpus:
    description: How many GPUs the host has.
    type: int
    required: true
  parts:
    description: Profiles of each GPU that is cut, as M(gpulab.kubernetes.nvidia_mig) returns them.
    type: list
    elements: list
    default: []
"""

EXAMPLES = r"""
- name: See what 2 GPUs are to pods when 4 of them share each
  ansible.builtin.debug:
    msg: "{{ ({'mode': 'time_slicing', 'replicas': 4} | gpulab.kubernetes.gpu_sharing(2)).amounts }}"
"""

RETURN = r"""
_value:
  description: What follows from the declaration.
  type: dict
  contains:
    mode:
      description: The mode.
      type: str
    replicas:
      description: How many pods share a GPU.
      type: int
    strategy:
      description: The device plugin's MIG strategy.
      type: str
    name:
      description: Name of the device plugin's configuration.
      type: str
    layout:
      description: The layout for M(gpulab.kubernetes.nvidia_mig), null when all GPUs are whole.
      type: raw
    amounts:
      description: Resource -> how much of it the host offers.
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
