# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._storage import local_path

DOCUMENTATION = r"""
name: local_path_obstacle
short_description: Find what keeps a StorageClass of local directories and its provisioner from being made
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - It is an object of the same name that this collection did not make, a StorageClass of another installation of the
    same provisioner, a class of that name that has another reclaim policy, or another class that is the default already
    when the wanted one is to be.
positional: _input, wanted
options:
  _input:
    description: The StorageClasses of the cluster and the objects of the names that are wanted, as the API gives them.
    type: list
    elements: dict
    required: true
  wanted:
    description: The manifests of the provisioner and of the StorageClass.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail if the class can't be made
  ansible.builtin.assert:
    that: found | gpulab.kubernetes.local_path_obstacle(wanted) | length == 0
"""

RETURN = r"""
_value:
  description: What stands in the way and what to do, empty if nothing does.
  type: str
  sample: Namespace storage was not made by this collection. Choose another local_path_namespace
"""


def local_path_obstacle(found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> str:
    return local_path.obstacle(found, wanted)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"local_path_obstacle": local_path_obstacle}
