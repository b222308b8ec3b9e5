# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._resolver import resolv_conf

DOCUMENTATION = r"""
name: kubelet_resolv_conf
short_description: Decide from which file a host's kubelet reads name servers
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - If systemd-resolved is active, the file is C(/run/systemd/resolve/resolv.conf), because C(/etc/resolv.conf) then
    contains a loopback address, which pods can't use. Otherwise, it is C(/etc/resolv.conf).
  - A host that already belongs to a cluster keeps the file of its kubelet.
positional: _input, wanted, shared
options:
  _input:
    description: The result of M(gpulab.kubernetes.preflight_info).
    type: dict
    required: true
  wanted:
    description: File that is configured for this host, or empty.
    type: str
    default: ""
  shared:
    description: File that is configured for all hosts, or null.
    type: str
"""

EXAMPLES = r"""
- name: Show the file with the name servers for pods
  ansible.builtin.debug:
    msg: "{{ preflight_host | gpulab.kubernetes.kubelet_resolv_conf }}"
"""

RETURN = r"""
_value:
  description: The path.
  type: str
  sample: /run/systemd/resolve/resolv.conf
"""


def kubelet_resolv_conf(host: Mapping[str, Any], wanted: str = "", shared: str | None = None) -> str:
    try:
        return resolv_conf(host["resolver"], wanted, shared, bool(host["cluster"]["finished"]))
    except (KeyError, TypeError) as error:
        raise AnsibleFilterError(f"Error while choosing the kubelet's resolv.conf: bad input ({error!r})") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"kubelet_resolv_conf": kubelet_resolv_conf}
