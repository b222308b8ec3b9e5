# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller knows by itself about the host that claims a node."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_identity
author: The gpulab.kubernetes maintainers (@gpulab)
version_added: 0.2.0
short_description: Return which node a host claims to be, and what the inventory knows about it
description:
  - The name of a node usually comes from the facts of its host. Modules that change nodes use the result of this lookup
    to check that a node belongs to the host that claims it.
  - The addresses are those of C(cluster_node_address) and C(ansible_host), or of the inventory name if C(ansible_host)
    is not set. Names are resolved on the controller. Values that depend on facts don't count, because facts come from
    the host.
options:
  _terms:
    description: Name of the node.
    type: list
    elements: str
    required: true
  control_plane:
    description: Inventory name of the host whose administrator's kubeconfig the run uses.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Cordon the node of this host
  gpulab.kubernetes.node_maintenance:
    kubeconfig: /run/user/1000/kubeconfig
    node: "{{ cluster_node_name }}"
    identity: "{{ lookup('gpulab.kubernetes.node_identity', cluster_node_name) }}"
    state: begun
"""

RETURN = r"""
_raw:
  description:
    - For each node C(node), the inventory name of the C(host), its C(addresses) in the inventory, whether it is the
      C(control_plane), and whether it has C(joined) the cluster as this node in this run.
  type: list
  elements: dict
  sample:
    - node: gpu1
      host: gpu1.example.com
      addresses: [192.0.2.11]
      control_plane: false
      joined: false
"""

import ipaddress
import socket
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

# The role kubeadm sets it when it has seen the node appear.
_JOINED = "kubeadm_joined_node"
_HOST = "inventory_hostname"
_GROUP = "cluster_control_plane_group"


class LookupModule(LookupBase):  # type: ignore[misc]
    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        self.set_options(var_options=variables, direct=kwargs)
        host = str(variables[_HOST])
        if _HOST in (variables.get("ansible_facts") or {}):
            raise AnsibleError(
                f"Error while identifying a host: its facts give it the inventory name {host!a:.80}. No "
                "module sets this fact: find out what has changed the host, or the cache of its facts"
            )
        # Not the variables of the task: where it is delegated, ansible_host is that of another machine.
        known = variables["hostvars"].raw_get(host)
        facts = known.get("ansible_facts") or {}
        from_host = {"ansible_facts", *facts, *(f"ansible_{name}" for name in facts)}
        given = {name: value for name, value in known.items() if name not in from_host}
        names = [self._text(given, "cluster_node_address"), self._text(given, "ansible_host") or host]
        addresses = sorted({address for name in names if name for address in _addresses(name)})
        return [
            {
                "node": str(term),
                "host": host,
                "addresses": addresses,
                "control_plane": host == self.get_option("control_plane") and _GROUP not in from_host,
                "joined": bool(term) and self._text(given, _JOINED) == term,
            }
            for term in terms
        ]

    def _text(self, given: dict[str, Any], name: str) -> str:
        """Return the value of a variable, empty if it depends on facts."""
        try:
            return str(self._templar.copy_with_new_env(available_variables=given).template(given.get(name, "")) or "")
        except AnsibleError:
            return ""


def _addresses(name: str) -> set[str]:
    try:
        return {str(ipaddress.ip_address(name))}
    except ValueError:
        pass
    try:
        return {str(found[4][0]).partition("%")[0] for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()
