# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import yaml

from ..module_utils._cluster import kubeconfig
from ..module_utils._kubeadm.kubeconfig import KubeconfigError

DOCUMENTATION = r"""
name: safe_kubeconfig
short_description: Build a kubeconfig from the fields of another one
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - The result has the server, CA, client certificate and key, or token of one context, and nothing else.
  - There is no result if the cluster or the user of the context has C(exec), C(auth-provider), C(proxy-url),
    C(insecure-skip-tls-verify), C(tokenFile) or paths of files, because they could run programs, read files or redirect
    connections on the machine that uses the kubeconfig.
positional: _input, context
options:
  _input:
    description: The kubeconfig as it was read from a host.
    type: str
    required: true
  context:
    description: Name of the context, empty for the current one.
    type: str
    default: ""
  addresses:
    description: Names and addresses that the server may have, empty for any.
    type: list
    elements: str
    default: []
  tunnel_port:
    description:
      - Local port at which a tunnel reaches the server. Its certificate is verified with the original name
        (C(tls-server-name)). V(0) means that there is no tunnel.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Write a kubeconfig that runs nothing
  ansible.builtin.copy:
    content: "{{ (admin_conf.content | b64decode | gpulab.kubernetes.safe_kubeconfig(addresses=['cp1'])).content }}"
    dest: /tmp/cluster.conf
    mode: "0600"
"""

RETURN = r"""
_value:
  description: The kubeconfig and its server. They are empty if O(_input) is refused.
  type: dict
  contains:
    problem:
      description: Why O(_input) is refused, and what to do; otherwise empty. It holds no secret.
      type: str
    content:
      description: The kubeconfig in YAML.
      type: str
    host:
      description: Name or address of the server, without a tunnel.
      type: str
      sample: 10.0.0.1
    port:
      description: Port of the server, without a tunnel.
      type: int
      sample: 6443
"""


def safe_kubeconfig(
    text: str, context: str = "", addresses: Sequence[str] = (), tunnel_port: int = 0
) -> dict[str, Any]:
    try:
        config = kubeconfig.read(str(text), str(context), [str(address) for address in addresses if address])
    except KubeconfigError as error:
        # Not an error: Ansible would wrap it in what it was doing, and no_log would hide it.
        problem = str(error).removeprefix("Error while reading a kubeconfig: ")
        return {"problem": problem, "content": "", "host": "", "port": 0}
    content = yaml.safe_dump(kubeconfig.build(config, int(tunnel_port)), sort_keys=False)
    return {"problem": "", "content": content, "host": config.host, "port": config.port}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"safe_kubeconfig": safe_kubeconfig}
