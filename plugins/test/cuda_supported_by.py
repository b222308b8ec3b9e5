# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ..plugin_utils._cuda.compatibility import RUNS
from ..plugin_utils._cuda.inputs import verdict

DOCUMENTATION = r"""
name: cuda_supported_by
short_description: Test whether an NVIDIA driver runs programs of a CUDA toolkit without additional packages
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Looks up the versions in this collection's table of toolkits, Linux drivers and GPUs (C(docs/cuda.md)).
  - The filter P(gpulab.kubernetes.cuda_compatibility#filter) returns the reason and advice.
positional: _input, driver
options:
  _input:
    description: Version of the toolkit as a string, such as V(12.4) or V(12.4.1).
    type: str
    required: true
  driver:
    description: Version of the Linux driver as a string (V(550.54.14)), or its branch (V(550)).
    type: str
    required: true
  gpu:
    description: GPU for which to test the compatibility - its name, PCI device ID or architecture.
    type: str
seealso:
  - plugin: gpulab.kubernetes.cuda_compatibility
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Fail if the driver is too old for the image
  ansible.builtin.assert:
    that: "'12.4' is gpulab.kubernetes.cuda_supported_by('550.54.14')"

- name: Use an older image on GPUs that CUDA 13 no longer supports
  ansible.builtin.debug:
    msg: CUDA 12
  when: "'13.0' is not gpulab.kubernetes.cuda_supported_by('580.178.04', gpu='Tesla P100-PCIE-16GB')"
"""

RETURN = r"""
_value:
  description:
    - Whether the result of P(gpulab.kubernetes.cuda_compatibility#filter) is V(native) or
      V(minor_version_compatibility). Forward compatibility does not count, because it needs a package. Unknown versions
      count as unsupported.
  type: bool
"""


def cuda_supported_by(cuda: Any, driver: Any, gpu: Any = None) -> bool:
    return verdict("cuda_supported_by", cuda, driver, gpu).kind in RUNS


class TestModule:
    def tests(self) -> dict[str, Callable[..., bool]]:
        return {"cuda_supported_by": cuda_supported_by}
