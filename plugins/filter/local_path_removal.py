# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._storage import local_path

DOCUMENTATION = r"""
name: local_path_removal
short_description: Decide what of a StorageClass of local directories and its provisioner is removed
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Nothing is removed while claims hold volumes of the class, or if the class or a part of the provisioner was not made
    by this collection.
  - The namespace stays if it was not made by this collection, or holds other pods or claims.
positional: _input, wanted
options:
  _input:
    description:
      - The objects of the names that would be removed, all PersistentVolumes, and the pods and claims of the namespace,
        as the API gives them.
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
- name: Show what would be removed
  ansible.builtin.debug:
    msg: "{{ (found | gpulab.kubernetes.local_path_removal(definitions)).removed }}"
"""

RETURN = r"""
_value:
  description: Why nothing may be removed (C(refused)), what goes (C(removed)), and what stays (C(kept)).
  type: dict
  contains:
    refused:
      description: What stands in the way, empty if nothing does.
      type: str
    removed:
      description: The manifests whose objects go, in this order.
      type: list
      elements: dict
    kept:
      description: Why the namespace stays, as a sentence; empty if it goes or is not there.
      type: str
"""


def local_path_removal(found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # Not asdict, which copies containers by their type: Ansible's refuse that.
    decided = local_path.removal(found, wanted)
    return {"refused": decided.refused, "removed": list(decided.removed), "kept": decided.kept}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"local_path_removal": local_path_removal}
