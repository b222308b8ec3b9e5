# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Callable

DOCUMENTATION = r"""
name: host_needs
short_description: List the ports and kernel modules that Kubernetes needs on a host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Combines what every node needs with what a control plane and the pod network need.
positional: _input, host, control_planes, network, backend
options:
  _input:
    description: >-
      Needs of each C(node), of a C(control_plane), and by network plugin and backend in C(networks). Each is a
      dictionary of lists.
    type: dict
    required: true
  host:
    description: Name of the host.
    type: str
    required: true
  control_planes:
    description: Names of the control planes.
    type: list
    elements: str
    required: true
  network:
    description: Network plugin of the cluster.
    type: str
    required: true
  backend:
    description: Backend of the network plugin.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the ports of this host
  ansible.builtin.debug:
    msg: "{{ (needs | gpulab.kubernetes.host_needs(inventory_hostname, ['cp1'], 'flannel', 'vxlan')).ports }}"
"""

RETURN = r"""
_value:
  description: A list for each key of C(node).
  type: dict
  sample: {ports: [10250/tcp, 6443/tcp]}
"""


def host_needs(
    table: Mapping[str, Any], host: str, control_planes: Container[str], network: str, backend: str
) -> dict[str, list[str]]:
    needs: Sequence[Mapping[str, Sequence[str]]] = (
        table["node"],
        table["control_plane"] if host in control_planes else {},
        table["networks"].get(network, {}).get(backend, {}),
    )
    return {key: [value for each in needs for value in each.get(key, ())] for key in table["node"]}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"host_needs": host_needs}
