#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_sharing_info
short_description: Tell how nodes share their GPUs, beside how they should
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Compares the labels and resources of nodes with what is declared for them, in one question to the API.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  nodes:
    description: The nodes to look at. One that the cluster does not have counts as one without GPUs.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      configuration:
        description: Name of the configuration that it should have.
        type: str
        required: true
      amounts:
        description: Resource -> how much of it the node should offer.
        type: dict
        required: true
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: See whether a node shares its GPUs as declared
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
  description: By name of the node, how it shares its GPUs.
  returned: success
  type: dict
  contains:
    differs:
      description: Whether it is labelled otherwise, or a change of it has been begun and not ended.
      type: bool
    drained:
      description: Whether a run has drained it before it would interrupt pods, and has not given it back yet.
      type: bool
    summary:
      description: The change in resources, empty when there is none.
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
