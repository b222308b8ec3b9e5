# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._storage import local_path

DOCUMENTATION = r"""
name: local_path_removal
short_description: Decide which objects of a StorageClass for local directories to remove
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Nothing is removed while claims have volumes of the class, or if the class or a part of the provisioner was not
    created by this collection.
  - The namespace is kept if it was not created by this collection, or if it contains other pods or claims.
positional: _input, wanted
options:
  _input:
    description:
      - Existing objects with the names of the manifests, all PersistentVolumes, and the pods and claims of the
        namespace, as returned by the API.
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
- name: Show what would be removed
  ansible.builtin.debug:
    msg: "{{ (found | gpulab.kubernetes.local_path_removal(definitions)).removed }}"
"""

RETURN = r"""
_value:
  description: The objects to remove, or the reason why nothing may be removed.
  type: dict
  contains:
    refused:
      description: Reason why nothing may be removed, or empty.
      type: str
    removed:
      description: Manifests of the objects to remove, in this order.
      type: list
      elements: dict
    kept:
      description: Reason why the namespace is kept; empty if it is removed or does not exist.
      type: str
"""


def local_path_removal(found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # Not asdict, which copies containers by their type: Ansible's refuse that.
    decided = local_path.removal(found, wanted)
    return {"refused": decided.refused, "removed": list(decided.removed), "kept": decided.kept}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"local_path_removal": local_path_removal}
