#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_for_rollout
short_description: Wait until workloads run on named nodes, and their GPUs are allocatable
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Waits until each node named has a ready pod of each DaemonSet, made from its present template, and each Deployment
    is available. Other nodes of the cluster don't matter, so one that is down does not hold up the others.
  - When the time is over, or an image can't be pulled for a minute, it fails and says for each node why, with the
    last lines of the pod's log.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  namespace:
    description: Namespace of the workloads.
    type: str
    required: true
  daemonsets:
    description: DaemonSets that must have a ready pod on each of O(nodes).
    type: list
    elements: str
    default: []
  deployments:
    description: Deployments that must be available.
    type: list
    elements: str
    default: []
  nodes:
    description: Names of the nodes, as the cluster has them.
    type: list
    elements: str
    default: []
  nodes_ready:
    description: Whether the nodes themselves must be ready, too.
    type: bool
    default: false
  allocatable:
    description:
      - Node name -> how many C(nvidia.com/gpu) must be allocatable there, or a mapping from the resources of its GPUs
        to amounts. No other resource of its GPUs may be allocatable then.
    type: dict
    default: {}
  tolerate_unhealthy:
    description:
      - Whether GPUs that the device plugin knows and calls unhealthy are a warning and no error, once it has done so
        for 15 seconds. For a caller that looks at each GPU afterwards.
    type: bool
    default: false
  timeout:
    description: How long to wait, in seconds. V(0) looks once.
    type: int
    default: 300
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
attributes:
  check_mode:
    details:
      - It does not wait in check mode, because what it would wait for may only have been predicted. What is missing
        is returned.
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Wait until the device plugin offers every GPU
  gpulab.kubernetes.wait_for_rollout:
    kubeconfig: /run/user/1000/kubeconfig
    namespace: nvidia-device-plugin
    daemonsets: [nvidia-device-plugin]
    nodes: [gpu1]
    allocatable:
      gpu1: 4
"""

RETURN = r"""
missing:
  description:
    - What is not as wanted. Anything missing is an error, but in check mode, and with O(tolerate_unhealthy=true).
  returned: always
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node, empty when it is about the whole cluster.
      type: str
    text:
      description: What is missing, and why.
      type: str
  sample: []
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster.api import Api
from ..module_utils._cluster.objects import GPU
from ..module_utils._cluster.rollout import Wanted
from ..module_utils._cluster.rollout_wait import Waiter
from ..module_utils._errors import DomainError


def _amounts(wanted: Any) -> dict[str, int]:
    amounts = wanted if isinstance(wanted, dict) else {GPU: wanted}
    return {name: int(amount) for name, amount in amounts.items()}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "namespace": {"type": "str", "required": True},
            "daemonsets": {"type": "list", "elements": "str", "default": []},
            "deployments": {"type": "list", "elements": "str", "default": []},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "nodes_ready": {"type": "bool", "default": False},
            "allocatable": {"type": "dict", "default": {}},
            "tolerate_unhealthy": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    params = module.params
    wanted = Wanted(
        daemonsets=tuple(params["daemonsets"]),
        deployments=tuple(params["deployments"]),
        nodes=tuple(params["nodes"]),
        nodes_ready=params["nodes_ready"],
        allocatable={node: _amounts(wanted) for node, wanted in params["allocatable"].items()},
    )
    started = time.monotonic()
    try:
        waiter = Waiter(Api(params["kubeconfig"]), params["namespace"], wanted, params["tolerate_unhealthy"])
        found = waiter.wait(0 if module.check_mode else params["timeout"])
        result = {"missing": [{"node": entry.node, "text": entry.text} for entry in found]}
        if found and waiter.tolerable(found):
            module.warn(waiter.explain(found))
        elif found and not module.check_mode:
            waited = f"{time.monotonic() - started:.0f} s"
            module.fail_json(
                msg=f"Error while waiting for {params['namespace']} ({waited}):\n{waiter.explain(found)}", **result
            )
    except DomainError as error:
        module.fail_json(msg=str(error), **error.fields)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
