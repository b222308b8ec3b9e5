#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_pools
short_description: Give nodes the labels and taints of their pools
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Makes labels and taints of nodes what is given. Those that an earlier call has set, and that are given no more, are
    removed; the annotation C(gpulab.io/node-pool) of the node remembers them. Labels and taints of another hand are
    never removed or changed.
  - Everything is checked first, and a mistake is one error after which nothing has changed. It is one, too, when no
    node would be left for pods that tolerate none of the taints, such as the cluster's DNS.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  nodes:
    description: The nodes; others are left alone.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      labels:
        description: Its labels.
        type: dict
        default: {}
      taints:
        description: Its taints.
        type: list
        elements: dict
        default: []
        suboptions:
          key:
            description: Key of the taint.
            type: str
            required: true
          value:
            description: Its value.
            type: str
            default: ""
          effect:
            description: What it does with pods that don't tolerate it.
            type: str
            choices: [NoSchedule, PreferNoSchedule]
            default: NoSchedule
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: [A node that is not there yet counts as one that would change.]
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
  description: Node -> its labels and taints of this module before and after, of nodes that changed.
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
