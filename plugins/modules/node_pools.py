#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_pools
short_description: Set the labels and taints of node pools
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Sets labels and taints of nodes, and records them in the node's annotation C(gpulab.io/node-pool). Labels and taints
    that an earlier call has set but that are no longer declared are removed. All others are never changed or removed.
  - Everything is checked before anything changes. The module also fails if pods that tolerate none of the taints, such
    as the cluster's DNS, could not be scheduled on any node.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster. Empty in check mode if there is no cluster yet.
    type: path
    required: true
  nodes:
    description: Nodes to change. Other nodes are not changed.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      identity:
        description:
          - Result of P(gpulab.kubernetes.node_identity#lookup) for the host of this node. If a node belongs to another
            host, the module fails and changes nothing. Otherwise it records the host in the node's annotation
            C(gpulab.io/inventory-host).
          - If omitted, this is neither checked nor recorded.
        type: dict
      labels:
        description: Labels of the node.
        type: dict
        default: {}
      taints:
        description: Taints of the node.
        type: list
        elements: dict
        default: []
        suboptions:
          key:
            description: Key of the taint.
            type: str
            required: true
          value:
            description: Value of the taint.
            type: str
            default: ""
          effect:
            description: What happens to pods that don't tolerate the taint.
            type: str
            choices: [NoSchedule, PreferNoSchedule]
            default: NoSchedule
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: [A node that does not exist yet is predicted to change.]
  diff_mode:
    support: full
  idempotent:
    support: full
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Keep pods without GPUs off the GPU nodes
  gpulab.kubernetes.node_pools:
    kubeconfig: /run/user/1000/kubeconfig
    nodes:
      - name: gpu1
        labels:
          gpulab.io/pool: a100
        taints:
          - key: nvidia.com/gpu
            value: present
"""

RETURN = r"""
changes:
  description: For each changed node, the labels and taints that this module manages, before and after.
  returned: success
  type: dict
  sample:
    gpu1:
      before: {labels: {}, taints: []}
      after: {labels: {gpulab.io/pool: a100}, taints: ["nvidia.com/gpu=present:NoSchedule"]}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.node_pools import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
