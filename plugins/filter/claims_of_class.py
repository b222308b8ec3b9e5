# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._storage import volumes

DOCUMENTATION = r"""
name: claims_of_class
short_description: List the claims that hold a volume of a StorageClass
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Volumes that their claims have left behind do not count.
positional: _input, name
options:
  _input:
    description: The PersistentVolumes of the cluster, as the API gives them.
    type: list
    elements: dict
    required: true
  name:
    description: Name of the class.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show who uses the class
  ansible.builtin.debug:
    msg: "{{ found.resources | gpulab.kubernetes.claims_of_class('local-path') }}"
"""

RETURN = r"""
_value:
  description: Namespace and name of each claim.
  type: list
  elements: str
  sample: [default/train]
"""


def claims_of_class(found: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    return volumes.claims_of_class(found, name)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"claims_of_class": claims_of_class}
