# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils import _nfs

DOCUMENTATION = r"""
name: nfs_export
short_description: Write the line of exports(5) for a directory
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Refuses values that would export other directories or export to other addresses.
positional: _input, clients, options, no_root_squash, insecure_clients, any_client
options:
  _input:
    description: Directory to export.
    type: str
    required: true
  clients:
    description: Addresses and networks that may mount it.
    type: list
    elements: str
    required: true
  options:
    description: Options of the export, except options that concern root.
    type: list
    elements: str
    required: true
  no_root_squash:
    description: Whether root on a client acts as root in the directory.
    type: bool
    default: false
  insecure_clients:
    description: Addresses and networks that may also mount it from ports above 1023.
    type: list
    elements: str
    default: []
  any_client:
    description: Whether clients may be host names, netgroups, wildcards, or networks of all addresses.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show an export
  ansible.builtin.debug:
    msg: "{{ '/srv/gpulab' | gpulab.kubernetes.nfs_export(['192.0.2.21'], ['rw', 'sync']) }}"
"""

RETURN = r"""
_value:
  description: The line.
  type: str
  sample: /srv/gpulab 192.0.2.21(rw,sync,root_squash)
"""


def nfs_export(
    path: str,
    clients: Sequence[str],
    options: Sequence[str],
    no_root_squash: bool = False,
    insecure_clients: Sequence[str] = (),
    any_client: bool = False,
) -> str:
    try:
        return _nfs.export(path, clients, options, no_root_squash, insecure_clients, any_client)
    except ValueError as error:
        raise AnsibleFilterError(f"Error while exporting {path}: {error}. Nothing was changed.") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nfs_export": nfs_export}
