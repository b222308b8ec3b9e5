# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils import _nfs

DOCUMENTATION = r"""
name: nfs_clients
short_description: List the node addresses of hosts, for the exports of an NFS server
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Uses C(cluster_node_address) of each host, or from its facts the address of the interface with the default route.
  - An unknown address is an error, because the host would be locked out without notice.
positional: _input, hosts
options:
  _input:
    description: Variables of all hosts, C(hostvars).
    type: dict
    required: true
  hosts:
    description: Names of the hosts.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show which addresses may mount the directory
  ansible.builtin.debug:
    msg: "{{ hostvars | gpulab.kubernetes.nfs_clients(cluster_hosts) }}"
"""

RETURN = r"""
_value:
  description: Addresses without duplicates, in the order of the hosts.
  type: list
  elements: str
  sample: [192.0.2.11, 192.0.2.21]
"""


def nfs_clients(hostvars: Mapping[str, Any], hosts: Sequence[str]) -> list[str]:
    try:
        return _nfs.clients(hostvars, hosts)
    except ValueError as error:
        raise AnsibleFilterError(
            f"Error while listing the nodes that may mount: {error}. Nothing was changed."
        ) from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nfs_clients": nfs_clients}
