# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from ..plugin_utils._inventory import access

DOCUMENTATION = r"""
name: report_directory
short_description: Choose where the controller keeps reports
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns the directory of the inventory. If the inventory is a directory, returns the one that contains it, because
    Ansible would read the reports as inventories.
  - Returns a directory that is an inventory only if the one that contains it is not writable.
positional: _input, directory
options:
  _input:
    description: The inventories of the run, the magic variable C(ansible_inventory_sources).
    type: list
    elements: str
    required: true
  directory:
    description: Directory of the inventory that has the host, the magic variable C(inventory_dir).
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Show where reports are kept
  ansible.builtin.debug:
    msg: "{{ ansible_inventory_sources | gpulab.kubernetes.report_directory(inventory_dir) }}"
"""

RETURN = r"""
_value:
  description: Path of the directory.
  type: str
"""


def report_directory(sources: Sequence[str], directory: str) -> str:
    return access.report_directory([str(source) for source in sources], str(directory))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"report_directory": report_directory}
