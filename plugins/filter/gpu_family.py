# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.gpulab.kubernetes.plugins.module_utils._gpu_families import gpu_family

DOCUMENTATION = r"""
name: gpu_family
short_description: Look up the architecture of an NVIDIA GPU by its PCI device id
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Says which architecture a GPU has, which kernel modules drive it, and which driver branches support it.
positional: _input
options:
  _input:
    description: The PCI device id in hexadecimal, with or without C(0x).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Say which modules the GPUs of this host take
  ansible.builtin.debug:
    msg: "{{ preflight_host.gpus | map(attribute='device_id') | map('gpulab.kubernetes.gpu_family')
             | map(attribute='open_modules') | unique }}"
"""

RETURN = r"""
_value:
  description: What is known of the GPU.
  type: dict
  contains:
    family:
      description: Its architecture, null when the id is unknown.
      type: str
      sample: Turing
    open_modules:
      description: >-
        Whether the open kernel modules are V(required), V(supported) or V(unsupported); null when the id is unknown.
      type: str
      sample: supported
    branches:
      description: First and last driver branch that supports it, null where there is no such bound.
      type: dict
      sample: {first: null, last: null}
"""


def describe(device_id: str) -> dict[str, Any]:
    found = gpu_family(device_id)
    return {
        "family": found.name if found else None,
        "open_modules": found.open_modules if found else None,
        "branches": {
            "first": found.first_branch if found else None,
            "last": found.last_branch if found else None,
        },
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"gpu_family": describe}
