# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._api_tunnel.tunnel import TunnelError, through_tunnel

DOCUMENTATION = r"""
name: kubeconfig_through_tunnel
short_description: Make a kubeconfig use a tunnel to its API server
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Replaces the server with C(https://127.0.0.1:PORT), and verifies its certificate with the original name
    (C(tls-server-name)).
positional: _input, port
options:
  _input:
    description: The kubeconfig.
    type: str
    required: true
  port:
    description: The local port. If it is V(0), there is no tunnel, and the kubeconfig is unchanged.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Write a kubeconfig for the tunnel
  ansible.builtin.copy:
    content: "{{ admin_conf | gpulab.kubernetes.kubeconfig_through_tunnel(tunnel.port) }}"
    dest: /tmp/tunnel.conf
    mode: "0600"
"""

RETURN = r"""
_value:
  description: The kubeconfig in YAML.
  type: str
"""


def kubeconfig_through_tunnel(text: str, port: int) -> str:
    try:
        return through_tunnel(str(text), int(port)) if int(port) else str(text)
    except TunnelError as error:
        raise AnsibleFilterError(f"Error while writing a kubeconfig for the tunnel to the API: {error}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"kubeconfig_through_tunnel": kubeconfig_through_tunnel}
