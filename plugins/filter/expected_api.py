# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleError
from jinja2 import UndefinedError

from ..module_utils._kubeadm.kubeconfig import host_port

DOCUMENTATION = r"""
name: expected_api
short_description: Return the probable address of the API server before any host is read
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Without an endpoint, this is port 6443 of C(cluster_node_address) or C(ansible_host) of the first control plane,
    whichever is an IPv4 address that other machines can use.
positional: _input, hosts, endpoint
options:
  _input:
    description: Names of the control planes.
    type: list
    elements: str
    required: true
  hosts:
    description: C(hostvars).
    type: dict
    required: true
  endpoint:
    description: Declared endpoint, empty for none.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show where the API server probably is
  ansible.builtin.debug:
    msg: "{{ groups['control_plane'] | gpulab.kubernetes.expected_api(hostvars) }}"
"""

RETURN = r"""
_value:
  description: Host and port, empty if both are unknown.
  type: str
  sample: 10.0.0.11:6443
"""


def expected_api(control_planes: Sequence[str], hosts: Mapping[str, Mapping[str, Any]], endpoint: str = "") -> str:
    if endpoint or not control_planes:
        return endpoint
    found = (_address(hosts, control_planes[0], name) for name in ("cluster_node_address", "ansible_host"))
    address = next(filter(None, found), "")
    return host_port(address, 6443) if address else ""


def _address(hosts: Mapping[str, Mapping[str, Any]], host: str, name: str) -> str:
    """The value of a variable if it is a usable address; one that refers to facts can't be known yet."""
    try:
        address = ipaddress.IPv4Address(str(hosts[host][name]))
    except (KeyError, ValueError, AnsibleError, UndefinedError):
        return ""
    return "" if address.is_loopback or address.is_unspecified or address.is_multicast else str(address)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"expected_api": expected_api}
