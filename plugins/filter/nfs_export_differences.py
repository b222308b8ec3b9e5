# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ..plugin_utils import _nfs

DOCUMENTATION = r"""
name: nfs_export_differences
short_description: Compare what an NFS server exports with a line of exports(5)
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the server's table of active exports, not its configuration files. Compares the clients of one directory, and
    for each client the options that decide who may read and write what.
positional: _input, path, export
options:
  _input:
    description: Contents of C(/var/lib/nfs/etab).
    type: str
    required: true
  path:
    description: The directory.
    type: str
    required: true
  export:
    description: The line, empty if the directory should not be exported.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Fail if the directory is not exported to exactly these clients
  ansible.builtin.assert:
    that: etab.content | b64decode | gpulab.kubernetes.nfs_export_differences('/srv/gpulab', line) | length == 0
  vars:
    line: /srv/gpulab 192.0.2.21(rw,sync,root_squash)
"""

RETURN = r"""
_value:
  description: The differences, empty if there are none.
  type: list
  elements: str
  sample: ["exported to 192.0.2.0/24, which the file does not have", "exported to 192.0.2.21 with no_root_squash"]
"""


def nfs_export_differences(etab: str, path: str, export: str = "") -> list[str]:
    return _nfs.differences(etab, path, export)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nfs_export_differences": nfs_export_differences}
