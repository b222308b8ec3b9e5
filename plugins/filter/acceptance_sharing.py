# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from .gpu_sharing import gpu_sharing

DOCUMENTATION = r"""
name: acceptance_sharing
short_description: Determine what to verify of the GPU sharing on a host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Adds to the result of P(gpulab.kubernetes.gpu_sharing#filter) what is wrong with the MIG devices.
positional: _input, gpus, expected, mig
options:
  _input:
    description: Declaration, as in C(nvidia_device_plugin_sharing).
    type: dict
    required: true
  gpus:
    description: GPUs that were found.
    type: list
    elements: dict
    required: true
  expected:
    description: Number of GPUs that are expected, null for those that were found.
    type: int
  mig:
    description: Result of M(gpulab.kubernetes.nvidia_mig) in check mode, empty if the MIG devices were not compared.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show what to verify of 2 shared GPUs
  ansible.builtin.debug:
    msg: "{{ {'mode': 'time_slicing', 'replicas': 4} | gpulab.kubernetes.acceptance_sharing([], 2) }}"
"""

RETURN = r"""
_value:
  description: >-
    Result of P(gpulab.kubernetes.gpu_sharing#filter) with a C(complaint), or an empty dictionary if each pod has a
    whole GPU or the host has no GPU.
  type: dict
"""

_DIFFERS = "the MIG devices differ from nvidia_device_plugin_sharing; site.yml partitions the GPUs"


def acceptance_sharing(
    declaration: Mapping[str, Any],
    gpus: Sequence[Mapping[str, Any]],
    expected: int | None = None,
    mig: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    count = len(gpus) if expected is None else int(expected)
    # A whole GPU for each pod needs no words.
    if count <= 0 or declaration.get("mode", "exclusive") == "exclusive":
        return {}
    found = mig or {}
    parts = [gpu["profiles"] for gpu in found.get("gpus") or ()]
    complaint = found.get("msg", _DIFFERS if found.get("differs") else "")
    return {**gpu_sharing(declaration, count, parts), "complaint": complaint}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"acceptance_sharing": acceptance_sharing}
