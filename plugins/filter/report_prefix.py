# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from ..plugin_utils._inventory import access

DOCUMENTATION = r"""
name: report_prefix
short_description: Choose how the paths of reports begin
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns the directory of the inventory with a slash. If the inventory is a directory, returns its path with a
    hyphen, so that the reports are next to it, because Ansible would read reports inside it as inventories.
  - If the directory that contains such an inventory is not writable, returns the inventory with a slash.
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
- name: Show how the paths of reports begin
  ansible.builtin.debug:
    msg: "{{ ansible_inventory_sources | gpulab.kubernetes.report_prefix(inventory_dir) }}"
"""

RETURN = r"""
_value:
  description: Path of the directory with a slash, or of the inventory with a hyphen.
  type: str
"""


def report_prefix(sources: Sequence[str], directory: str) -> str:
    return access.report_prefix([str(source) for source in sources], str(directory))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"report_prefix": report_prefix}
