#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_reset
short_description: Remove everything from a host that this collection, kubeadm and the pod network made
version_added: 0.3.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Removes what the record of the first run shows as new, and restores what it shows as changed. What was there before
    stays, such as a driver or containerd.
  - Needs neither the API nor etcd. It does not let the host leave its cluster, which the role
    P(gpulab.kubernetes.reset#role) and the playbook of the same name do first.
  - Removes only the chains and tables of the packet filter that kube-proxy, the kubelet, flannel and the CNI plugins
    have made, and never changes what the connection to the host needs.
  - After an interruption, the next run continues. The record of the first run is removed last.
options:
  data:
    description: Directories with data of users, and what they contain. They stay.
    type: dict
    default: {}
  lose_data:
    description: Whether to remove these directories, backups and volumes, too.
    type: bool
    default: false
  lose_etcd:
    description: >-
      Whether to remove the data of etcd, which may be the last copy. Without it, a host with such data is refused.
    type: bool
    default: false
  lock_timeout:
    description: Seconds to wait for another package manager.
    type: float
    default: 600
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: [Shows a line for everything that is removed or restored, but no contents of files.]
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Show what a reset of the host would remove
  gpulab.kubernetes.host_reset:
  check_mode: true
  diff: true
"""

RETURN = r"""
actions:
  description: What is done, in this order, and what stays.
  returned: success
  type: list
  elements: dict
  contains:
    do:
      description: V(remove), V(restore) or V(keep).
      type: str
    kind:
      description: What it is, such as V(package), V(file), V(directory), V(packet filter) or V(data).
      type: str
    name:
      description: Its name or path.
      type: str
    why:
      description: The reason, or details. May be empty.
      type: str
  sample: [{do: remove, kind: package, name: kubelet, why: 1.36.4-1.1}]
kept:
  description: What stays although this collection may have made or changed it, with the reason.
  returned: success
  type: list
  elements: str
  sample: ["data /var/lib/gpulab/local-path: volumes of local-path"]
cluster:
  description: The cluster that the host belongs to, as far as its files show. Unknown texts are empty.
  returned: success
  type: dict
  contains:
    name:
      description: Name of the cluster.
      type: str
    api_name:
      description: Name of its API.
      type: str
    role:
      description: V(control_plane), V(worker), or empty.
      type: str
    node_name:
      description: Name of the node.
      type: str
    endpoint:
      description: The cluster's endpoint as host:port.
      type: str
    ca_hashes:
      description: Hashes of the public keys of the cluster's CAs.
      type: list
      elements: str
  sample: {name: lab, api_name: api.lab.internal, role: worker, node_name: gpu1, endpoint: "", ca_hashes: []}
etcd:
  description: Directory with data of etcd, empty if there are none.
  returned: success
  type: str
  sample: /var/lib/etcd
begun:
  description: Whether an earlier reset of this host was interrupted.
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._reset.run import ensure


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "data": {"type": "dict", "default": {}},
            "lose_data": {"type": "bool", "default": False},
            "lose_etcd": {"type": "bool", "default": False},
            "lock_timeout": {"type": "float", "default": 600},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, ensure)


if __name__ == "__main__":
    main()
