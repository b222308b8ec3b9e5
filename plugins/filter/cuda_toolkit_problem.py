# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._cuda.plan import problem

DOCUMENTATION = r"""
name: cuda_toolkit_problem
short_description: Find what prevents the installation of CUDA toolkits on a host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Checks that the settings fit each other, that the distribution's repository has the toolkits, and that the driver
    and the GPUs run them.
positional: _input, default, remove, accept
options:
  _input:
    description: Toolkits, as returned by P(gpulab.kubernetes.cuda_toolkits#filter).
    type: list
    elements: dict
    required: true
  default:
    description: Release of the default toolkit, empty for the newest.
    type: str
    required: true
  remove:
    description: Minor versions of the toolkits to remove.
    type: list
    elements: str
    required: true
  accept:
    description: Accepted kinds of compatibility.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show the problem
  ansible.builtin.debug:
    msg: >-
      {{ ['12.9.1'] | gpulab.kubernetes.cuda_toolkits
         | gpulab.kubernetes.cuda_toolkit_problem('13.1.1', [], ['native']) }}
"""

RETURN = r"""
_value:
  description: The first problem with its solution, empty if there is none.
  type: str
"""


def cuda_toolkit_problem(
    toolkits: Sequence[Mapping[str, Any]], default: str, remove: Sequence[str], accept: Sequence[str]
) -> str:
    return problem(toolkits, default, remove, accept)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cuda_toolkit_problem": cuda_toolkit_problem}
