# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ..plugin_utils._cuda.families import identify
from ..plugin_utils._cuda.inputs import text

DOCUMENTATION = r"""
name: gpu_family
short_description: Look up the architecture of an NVIDIA GPU by its PCI device ID or its name
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns the architecture of a GPU, its kernel modules, and the driver branches and CUDA toolkits that support it.
    The table and its sources are in C(docs/cuda.md).
positional: _input
options:
  _input:
    description:
      - PCI device ID in hexadecimal (V(0x1eb8), V(10de:1eb8)), name as printed by C(nvidia-smi) (V(Tesla T4)), or
        architecture (V(Turing)). An ID needs C(0x) if it is also a model number, such as V(2080).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show which kernel modules the GPUs of this host support
  ansible.builtin.debug:
    msg: "{{ preflight_host.gpus | map(attribute='device_id') | map('gpulab.kubernetes.gpu_family')
             | map(attribute='open_modules') | unique }}"

- name: Show the last toolkit for a GPU
  ansible.builtin.debug:
    msg: "{{ ('Tesla V100-SXM2-32GB' | gpulab.kubernetes.gpu_family).toolkits.last }}"
"""

RETURN = r"""
_value:
  description: Known data about the GPU.
  type: dict
  contains:
    family:
      description: Architecture, null if the GPU is unknown.
      type: str
      sample: Turing
    open_modules:
      description: >-
        Whether the open kernel modules are V(required), V(supported) or V(unsupported); null if the GPU is unknown.
      type: str
      sample: supported
    branches:
      description: First and last driver branch that support the GPU, null if there is no such limit.
      type: dict
      sample: {first: 410, last: null}
    toolkits:
      description:
        - First and last minor version of the CUDA toolkit that support the GPU, null if there is no such limit, or if
          the limit is older than the table.
      type: dict
      sample: {first: "10.0", last: null}
    data_center:
      description: Whether it is a data-center GPU, null if neither the name nor the architecture determines this.
      type: bool
      sample: true
"""


def describe(gpu: Any) -> dict[str, Any]:
    found = identify(text("gpu_family", "the GPU", gpu))
    family = found.family if found else None
    return {
        "family": family.name if family else None,
        "open_modules": family.open_modules if family else None,
        "branches": {
            "first": family.first_branch if family else None,
            "last": family.last_branch if family else None,
        },
        "toolkits": {
            "first": family.first_toolkit if family else None,
            "last": family.last_toolkit if family else None,
        },
        "data_center": found.data_center if found else None,
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"gpu_family": describe}
