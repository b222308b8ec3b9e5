#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_removal_info
short_description: Show what the removal of nodes affects
version_added: 0.3.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Finds the nodes of hosts, and the volumes whose data would leave the cluster with them. Changes nothing.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  names:
    description: Hosts of the inventory, or nodes that the inventory does not have.
    type: list
    elements: str
    required: true
  identities:
    description: Results of P(gpulab.kubernetes.node_identity#lookup) for those O(names) that the inventory has.
    type: list
    elements: dict
    default: []
  hosts:
    description: All hosts of the cluster in the inventory.
    type: list
    elements: str
    default: []
  selectors:
    description: Node selectors by name, such as those of W&B Launch's queues.
    type: dict
    default: {}
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Show which volumes are on gpu2
  gpulab.kubernetes.node_removal_info:
    kubeconfig: /run/user/1000/kubeconfig
    names: [gpu2]
"""

RETURN = r"""
targets:
  description: What is known of each of O(names).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The name.
      type: str
    host:
      description: The host of the inventory, empty if it has none.
      type: str
    claimed:
      description: The name of the node in O(identities), which may be empty.
      type: str
    addresses:
      description: The addresses of the host in the inventory.
      type: list
      elements: str
    node:
      description: The node, with C(name), C(uid), C(ready), C(control_plane), C(addresses), C(machine_id) and C(host).
      type: dict
    removed:
      description: The record of a node that was removed while its host could not be reset.
      type: dict
    pods:
      description: The pods that hold GPUs of the node according to the API.
      type: list
      elements: dict
    problem:
      description: Why the name can't be used, empty if it can.
      type: str
volumes:
  description: Volumes that no other node can use, each with C(name), C(claim) and C(where).
  returned: success
  type: list
  elements: dict
  sample: [{name: pvc-1, claim: team/data, where: /var/lib/gpulab/local-path/pvc-1 on gpu2}]
stranded:
  description: Those of O(selectors) that no other node matches.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster import identity, objects
from ..module_utils._cluster.api import Api
from ..module_utils._cluster.node_list import REMOVED_PATH, read_removed
from ..module_utils._cluster.nodes import NODES
from ..module_utils._cluster.removal import gpu_pods, targets
from ..module_utils._module import run
from ..module_utils._storage.node_data import lost_volumes, stranded


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params, api = module.params, Api(module.params["kubeconfig"])
    claims = {claim.host: claim for claim in map(identity.read, params["identities"])}
    nodes, removed = api.items(NODES), read_removed(api.find(REMOVED_PATH))
    found = list(targets(params["names"], nodes, removed, claims, params["hosts"]))
    leaving = {each["node"]["name"] for each in found if each["node"]}
    pods = [pod for pod in api.items("/api/v1/pods") if objects.node_of(pod) in leaving]
    by_node = objects.grouped(pods, objects.node_of)
    for each in found:
        there = [node for node in nodes if each["node"] and objects.name(node) == each["node"]["name"]]
        each["pods"] = [pod for node in there for pod in gpu_pods(by_node.get(objects.name(node), []), node)]
    servers = {each["name"] for each in found}.union(
        *(each["node"]["addresses"] for each in found if each["node"]),
        *(claims[each["host"]].addresses for each in found if each["host"]),
    )
    volumes = lost_volumes(api.items("/api/v1/persistentvolumes"), pods, nodes, leaving, servers)
    return {"targets": found, "volumes": volumes, "stranded": stranded(params["selectors"], nodes, leaving)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "names": {"type": "list", "elements": "str", "required": True},
            "identities": {"type": "list", "elements": "dict", "default": []},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "selectors": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
