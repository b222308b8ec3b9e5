# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._storage.volumes import class_obstacle

DOCUMENTATION = r"""
name: storage_class_obstacle
short_description: Find what keeps a StorageClass from becoming the wanted one
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - It is a class of that name that something else made, or that has another reclaim policy, or another class that is
    the default already when the wanted one is to be.
positional: _input, wanted
options:
  _input:
    description: The StorageClasses of the cluster, as the API gives them.
    type: list
    elements: dict
    required: true
  wanted:
    description: The StorageClass that is wanted.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail if the class can't be made
  ansible.builtin.assert:
    that: classes.resources | gpulab.kubernetes.storage_class_obstacle(wanted) | length == 0
"""

RETURN = r"""
_value:
  description: What stands in the way and what to do, empty if nothing does.
  type: str
  sample: StorageClass local-path was not made by this collection. Choose another local_path_class
"""


def storage_class_obstacle(classes: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any]) -> str:
    return class_obstacle(classes, wanted)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"storage_class_obstacle": storage_class_obstacle}
