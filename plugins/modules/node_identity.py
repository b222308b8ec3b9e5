#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_identity
short_description: Check that each host claims its own node
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Fails if two hosts claim the same node, or if a host claims a node that is not its own.
  - A node belongs to the host that its annotation C(gpulab.io/inventory-host) names. M(gpulab.kubernetes.node_pools)
    sets this annotation.
  - Without the annotation, a node belongs to the host whose address in the inventory is the node's C(InternalIP), and a
    control plane node also to the host whose administrator's kubeconfig the run uses. A node that appeared when a host
    joined the cluster in this run belongs to that host.
  - Nodes that do not exist yet are not checked.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  identities:
    description: For each host the result of P(gpulab.kubernetes.node_identity#lookup).
    type: list
    elements: dict
    required: true
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Check that each host claims its own node
  gpulab.kubernetes.node_identity:
    kubeconfig: /run/user/1000/kubeconfig
    identities:
      - node: gpu1
        host: gpu1.example.com
        addresses: [192.0.2.11]
"""

RETURN = r""" # """

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster import identity, objects
from ..module_utils._cluster.api import Api
from ..module_utils._cluster.nodes import NODES
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    claims = [identity.read(values) for values in module.params["identities"]]
    nodes = {objects.name(node): node for node in Api(module.params["kubeconfig"]).items(NODES)}
    identity.refuse(list(identity.problems(nodes, claims)))
    return {}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "identities": {"type": "list", "elements": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
