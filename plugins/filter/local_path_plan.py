# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._storage import local_path

DOCUMENTATION = r"""
name: local_path_plan
short_description: Decide whether a StorageClass for local directories can be created, and what of it to remove
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - It can't be created if this collection did not create an object of the same name, or if there is a StorageClass of
    another installation of the same provisioner, a StorageClass of the same name with another reclaim policy, or
    another default class if the wanted class should be the default.
  - Nothing is removed while claims have volumes of the class, or if the class or a part of the provisioner was not
    created by this collection.
  - The namespace is kept if it was not created by this collection, or if it contains other pods or claims.
positional: _input, wanted
options:
  _input:
    description:
      - StorageClasses of the cluster, and existing objects with the wanted names, as returned by the API. For a removal
        also all PersistentVolumes, and the pods and claims of the namespace.
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
    that: (found | gpulab.kubernetes.local_path_plan(wanted)).obstacle | length == 0
"""

RETURN = r"""
_value:
  description: The decision.
  type: dict
  contains:
    obstacle:
      description: Why the class can't be created and what to do, or empty.
      type: str
      sample: Namespace storage was not created by this collection. Choose another local_path_namespace
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


def local_path_plan(found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # Not asdict, which copies containers by their type: Ansible's refuse that.
    plan = local_path.plan(found, wanted)
    return {"obstacle": plan.obstacle, "refused": plan.refused, "removed": list(plan.removed), "kept": plan.kept}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"local_path_plan": local_path_plan}
