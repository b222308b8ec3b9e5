# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ..module_utils._kubeadm.kubeconfig import host_port

DOCUMENTATION = r"""
name: api_server
short_description: Return host and port of the API server
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Without an endpoint, this is port 6443 of the control plane. An IPv6 address is put in brackets.
positional: _input, endpoint
options:
  _input:
    description: Address of the control plane, empty if it is unknown.
    type: str
    required: true
  endpoint:
    description: Declared endpoint, empty for none.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show the address of the API server
  ansible.builtin.debug:
    msg: "{{ 'fd00::1' | gpulab.kubernetes.api_server }}"
"""

RETURN = r"""
_value:
  description: Host and port, empty if both are unknown.
  type: str
  sample: "[fd00::1]:6443"
"""


def api_server(address: str, endpoint: str = "") -> str:
    if endpoint or not address:
        return endpoint
    return host_port(address, 6443)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"api_server": api_server}
