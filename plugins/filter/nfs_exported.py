# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ..plugin_utils import _nfs

DOCUMENTATION = r"""
name: nfs_exported
short_description: List the directories that an NFS server exports
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the server's table of active exports, not its configuration files.
options:
  _input:
    description: Contents of C(/var/lib/nfs/etab).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Fail if the directory is not exported
  ansible.builtin.assert:
    that: "'/srv/gpulab' in (etab.content | b64decode | gpulab.kubernetes.nfs_exported)"
"""

RETURN = r"""
_value:
  description: The directories.
  type: list
  elements: str
  sample: [/srv/gpulab]
"""


def nfs_exported(etab: str) -> list[str]:
    return _nfs.exported(etab)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nfs_exported": nfs_exported}
