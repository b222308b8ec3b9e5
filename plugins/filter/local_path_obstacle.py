# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._storage import local_path

DOCUMENTATION = r"""
name: local_path_obstacle
short_description: Find what prevents the creation of a StorageClass for local directories
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - This can be an object of the same name that this collection did not create, a StorageClass of another installation
    of the same provisioner, a StorageClass of the same name with another reclaim policy, or another default class if
    the wanted class should be the default.
positional: _input, wanted
options:
  _input:
    description: StorageClasses of the cluster, and existing objects with the wanted names, as returned by the API.
    type: list
    elements: dict
    required: true
  wanted:
    description: Manifests of the provisioner and of the StorageClass.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail if the class can't be created
  ansible.builtin.assert:
    that: found | gpulab.kubernetes.local_path_obstacle(wanted) | length == 0
"""

RETURN = r"""
_value:
  description: The problem and its solution, or empty.
  type: str
  sample: Namespace storage was not created by this collection. Choose another local_path_namespace
"""


def local_path_obstacle(found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> str:
    return local_path.obstacle(found, wanted)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"local_path_obstacle": local_path_obstacle}
