# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._cuda.compatibility import CudaError
from ..plugin_utils._cuda.inputs import text
from ..plugin_utils._cuda.plan import packages_of

DOCUMENTATION = r"""
name: cuda_packages
short_description: Select the packages that belong only to given CUDA toolkits
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - The names of packages in NVIDIA's CUDA repository contain the toolkit's minor version. Packages that all toolkits
    share, such as C(cuda-toolkit-config-common), are not selected.
positional: _input, minors
options:
  _input:
    description: Package names.
    type: list
    elements: str
    required: true
  minors:
    description: Minor versions, such as V(12.9).
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show the packages of a toolkit
  ansible.builtin.debug:
    msg: "{{ ansible_facts.packages | list | gpulab.kubernetes.cuda_packages(['12.8']) }}"
"""

RETURN = r"""
_value:
  description: Package names in alphabetical order.
  type: list
  elements: str
"""


def cuda_packages(names: Iterable[str], minors: Iterable[Any]) -> list[str]:
    installed = list(names)
    try:
        found = [name for minor in minors for name in packages_of(text("cuda_packages", "a version", minor), installed)]
    except CudaError as error:
        raise AnsibleFilterError(f"cuda_packages: {error}") from error
    return sorted(set(found))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cuda_packages": cuda_packages}
