#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_removal
short_description: Delete a node, and remember that its host was not reset
version_added: 0.3.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Deletes a node that has been drained. Before, it is recorded in the ConfigMap C(gpulab-removed-nodes) in the
    namespace C(kube-system), until its host is reset. Preflight recognizes a machine with the files of such a node.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  node:
    description: Name of the node.
    type: str
    required: true
  state:
    description: V(deleted) records and deletes the node. V(reset) removes the record, because the host was reset.
    type: str
    choices: [deleted, reset]
    default: deleted
  uid:
    description: UID of the node. If another node has the name now, the module fails. Required with O(state=deleted).
    type: str
  host:
    description: The node's host in the inventory, for the record.
    type: str
    default: ""
  machine_id:
    description: C(/etc/machine-id) of the host, for the record.
    type: str
    default: ""
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Delete the node gpu2
  gpulab.kubernetes.node_removal:
    kubeconfig: /run/user/1000/kubeconfig
    node: gpu2
    uid: 0f1f2a5e-3f61-4e3e-8a51-6b0f2b1a9d10
    host: gpu2.example.com
"""

RETURN = r""" # """

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster import nodes
from ..module_utils._cluster.api import Api
from ..module_utils._cluster.node_list import REMOVED_PATH, removed_text
from ..module_utils._cluster.removal import delete, remember
from ..module_utils._module import run
from ..module_utils._words import written


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params, api = module.params, Api(module.params["kubeconfig"])
    name = params["node"]
    if params["state"] == "reset":
        there = name in ((api.find(REMOVED_PATH) or {}).get("data") or {})
        if there and not module.check_mode:
            remember(api, name, None)
        return {"changed": there}
    there = api.find(nodes.path(name)) is not None
    if there and not module.check_mode:
        remember(api, name, removed_text(params["host"], params["machine_id"], written(time.time()) or ""))
        delete(api, name, params["uid"])
    return {"changed": there, "diff": {"before": f"node {name}\n" if there else "", "after": ""}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "node": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["deleted", "reset"], "default": "deleted"},
            "uid": {"type": "str"},
            "host": {"type": "str", "default": ""},
            "machine_id": {"type": "str", "default": ""},
        },
        required_if=[("state", "deleted", ("uid",))],
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
