# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from ..plugin_utils._inventory import access

DOCUMENTATION = r"""
name: kubeconfig_path
short_description: Choose where the controller keeps the administrator's kubeconfig
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns C(NAME-admin.conf) next to the first inventory that is a file (C(NAME.ini)) or a directory (C(NAME)).
  - Returns an empty string if there is no such inventory, or if its directory is not writable.
positional: _input, is_job
options:
  _input:
    description: The inventories of the run, as in the magic variable C(ansible_inventory_sources).
    type: list
    elements: str
    required: true
  is_job:
    description: Whether the run is a job of AWX, for which no kubeconfig is kept.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show where the kubeconfig is kept
  ansible.builtin.debug:
    msg: "{{ ansible_inventory_sources | gpulab.kubernetes.kubeconfig_path }}"
"""

RETURN = r"""
_value:
  description: Path of the file, empty for none.
  type: str
"""


def kubeconfig_path(sources: Sequence[str], is_job: bool = False) -> str:
    return access.kubeconfig_path([str(source) for source in sources], is_job)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"kubeconfig_path": kubeconfig_path}
