# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Callable

from ..plugin_utils._cuda.inputs import verdict

DOCUMENTATION = r"""
name: cuda_compatibility
short_description: Determine whether and how an NVIDIA driver runs programs of a CUDA toolkit
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Looks up the versions in this collection's table of toolkits, Linux drivers and GPUs, from Kepler to Blackwell. The
    table and its sources are in C(docs/cuda.md).
  - Input that is not a version is an error. For a version or GPU that is not in the table yet, the result is
    RV(_value.kind=unknown).
positional: _input, driver
options:
  _input:
    description:
      - Version of the toolkit as a string, such as V(12.4), V(12.4.1) or V(cuda-12.4). V(12.4) means the first release
        of 12.4, and V(13) means V(13.0).
    type: str
    required: true
  driver:
    description:
      - Version of the Linux driver as a string, as printed by C(nvidia-smi) (V(550.54.14)), or only its branch
        (V(550)). For a branch, the result applies to all of its releases; minor version compatibility applies to its
        current releases.
    type: str
    required: true
  gpu:
    description:
      - GPU for which to determine the compatibility - its name as printed by C(nvidia-smi) (V(Tesla T4)), its PCI
        device ID (V(0x1eb8), V(10de:1eb8)) or its architecture (V(Turing)).
    type: str
  data_center:
    description:
      - Whether the GPU is a data-center GPU. If unset, this is derived from the name. If that is not possible, the
        result is RV(_value.kind=forward_compatibility) with the condition in RV(_value.reason).
    type: bool
seealso:
  - plugin: gpulab.kubernetes.cuda_supported_by
    plugin_type: test
  - plugin: gpulab.kubernetes.gpu_family
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show whether a driver runs CUDA 12.4
  ansible.builtin.debug:
    msg: "{{ '12.4' | gpulab.kubernetes.cuda_compatibility('550.54.14') }}"
  # kind: native

- name: Install the package for forward compatibility if it helps
  ansible.builtin.apt:
    name: "{{ compatibility.package }}"
  when: compatibility.kind == 'forward_compatibility'
  vars:
    compatibility: "{{ '13.0' | gpulab.kubernetes.cuda_compatibility('535.274.02', gpu='Tesla T4') }}"

- name: Show why a V100 does not run CUDA 13
  ansible.builtin.debug:
    msg: "{{ ('13.0' | gpulab.kubernetes.cuda_compatibility('580.178.04', gpu='Tesla V100-SXM2-32GB')).reason }}"
  # CUDA 13.0 has no code for Volta GPUs: CUDA 12.9 is the last version that has
"""

RETURN = r"""
_value:
  description: The result.
  type: dict
  contains:
    kind:
      description:
        - V(native) - the driver is as new as the toolkit requires.
        - V(minor_version_compatibility) - an older driver for the same major version of CUDA; programs run with the
          restrictions in RV(_value.reason).
        - V(forward_compatibility) - the driver is for an older major version; programs run with RV(_value.package), on
          data-center GPUs only.
        - V(unsupported) - programs don't run; RV(_value.advice) explains what to change.
        - V(unknown) - the version or the GPU is not in the table, or the available data is not sufficient.
      type: str
      choices: [native, minor_version_compatibility, forward_compatibility, unsupported, unknown]
      sample: native
    reason:
      description: Reason, with the relevant versions.
      type: str
      sample: Driver 550.54.14 meets the requirement of CUDA 12.4 (550.54.14 or newer)
    advice:
      description: What to do.
      type: str
      sample: Nothing has to be changed
    package:
      description: Package for V(forward_compatibility), otherwise null.
      type: str
      sample: cuda-compat-13-0
"""


def cuda_compatibility(cuda: Any, driver: Any, gpu: Any = None, data_center: Any = None) -> dict[str, str | None]:
    return asdict(verdict("cuda_compatibility", cuda, driver, gpu, data_center))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cuda_compatibility": cuda_compatibility}
