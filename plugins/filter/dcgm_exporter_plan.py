# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._cluster import dcgm_exporter

DOCUMENTATION = r"""
name: dcgm_exporter_plan
short_description: Decide whether the DCGM exporter can be installed, and what of it to remove
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - It can't be installed if another one exports the metrics already, if an object with a wanted name was not created by
    this collection, or if the cluster has no RuntimeClass for NVIDIA.
  - Only objects that this collection created are removed. The namespace is kept if it has other pods.
positional: _input, wanted
options:
  _input:
    description:
      - All DaemonSets of the cluster, the RuntimeClass, the existing objects with the wanted names, and the pods of the
        namespace, as returned by the API.
    type: list
    elements: dict
    required: true
  wanted:
    description: Manifests of the exporter.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail if the exporter can't be installed
  ansible.builtin.assert:
    that: (found | gpulab.kubernetes.dcgm_exporter_plan(wanted)).obstacle | length == 0
"""

RETURN = r"""
_value:
  description: The decision.
  type: dict
  contains:
    obstacle:
      description: Why it can't be installed and what to do, or empty.
      type: str
    removed:
      description: Manifests of the objects to remove, in this order.
      type: list
      elements: dict
    kept:
      description: Why the namespace is kept, or empty.
      type: str
"""


def dcgm_exporter_plan(found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # Not asdict, which copies containers by their type: Ansible's refuse that.
    plan = dcgm_exporter.plan(found, wanted)
    return {"obstacle": plan.obstacle, "removed": list(plan.removed), "kept": plan.kept}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"dcgm_exporter_plan": dcgm_exporter_plan}
