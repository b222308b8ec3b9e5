#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_sharing_info
short_description: Compare how nodes share their GPUs with the declared state
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Compares the labels and resources of nodes with their declared state, in a single API request.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  nodes:
    description: Nodes to compare. A node that does not exist counts as a node without GPUs.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      configuration:
        description: Name of the configuration that the node should have.
        type: str
        required: true
      amounts:
        description: Amount of each resource that the node should offer.
        type: dict
        required: true
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Check whether a node shares its GPUs as declared
  gpulab.kubernetes.gpu_sharing_info:
    kubeconfig: /run/user/1000/kubeconfig
    nodes:
      - name: gpu1
        configuration: mig-mixed
        amounts:
          nvidia.com/mig-1g.5gb: 14
"""

RETURN = r"""
nodes:
  description: How each node shares its GPUs, by name.
  returned: success
  type: dict
  contains:
    differs:
      description: Whether the labels of the node differ, or a change has begun but not ended.
      type: bool
    drained:
      description: Whether a run has drained the node but not uncordoned it yet.
      type: bool
    summary:
      description: Change in resources, empty if there is none.
      type: str
  sample:
    gpu1:
      differs: true
      drained: false
      summary: gpu1 nvidia.com/gpu 2 -> nvidia.com/mig-1g.5gb 14
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.gpu_sharing_info import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
