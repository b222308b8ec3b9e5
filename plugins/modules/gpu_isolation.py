#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_isolation
short_description: Isolate a node with unhealthy GPUs, or end its isolation
version_added: 0.2.0
description:
  - Taints or cordons a node, and records in its annotation C(gpulab.io/gpu-isolation) the reason, the time, and whether
    the node was cordoned before. Running pods are not evicted.
  - Ending the isolation undoes only what this module did. A node that was cordoned before stays cordoned.
  - The module verifies nothing. The role C(gpu_isolation) ends the isolation of a node only after its GPUs have
    been verified.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  kubeconfig:
    description: Kubeconfig of an administrator.
    type: path
    required: true
  node:
    description: Name of the node.
    type: str
    required: true
  identity:
    description:
      - Result of P(gpulab.kubernetes.node_identity#lookup) for the host of this node. If the node belongs to another
        host, the module fails and changes nothing.
      - If omitted, this is not checked.
    type: dict
  state:
    description:
      - V(isolated) - no new pods are scheduled on the node.
      - V(returned) - the node is back in service.
    type: str
    choices: [isolated, returned]
    default: isolated
  policy:
    description:
      - V(taint) - the node gets the taint C(gpulab.io/gpu-isolated=true:NoSchedule), which pods can tolerate.
      - V(cordon) - the node is cordoned, which C(kubectl get nodes) shows.
    type: str
    choices: [taint, cordon]
    default: taint
  reason:
    description: Reason, as shown to users. If empty, the recorded reason is kept.
    type: str
    default: ""
  during_work:
    description:
      - Whether to isolate a node that is under maintenance, such as a driver upgrade, a change of GPU sharing, or a
        drain before a restart. GPUs may look unhealthy during that time. With V(false), such a node is not changed, and
        RV(work) names the maintenance.
    type: bool
    default: true
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
requirements:
  - kubernetes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows the node's annotations and taints, and whether it is cordoned.
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Keep new pods from a node
  gpulab.kubernetes.gpu_isolation:
    kubeconfig: /root/admin.conf
    node: gpu1
    reason: "GPU 0: Xid 79: the GPU has fallen off the bus"

- name: End the isolation of a node
  gpulab.kubernetes.gpu_isolation:
    kubeconfig: /root/admin.conf
    node: gpu1
    state: returned
"""

RETURN = r"""
isolated:
  description: Whether the node is isolated afterwards.
  returned: success
  type: bool
work:
  description:
    - Annotation or label that shows that the node is under maintenance. Empty if there is none.
  returned: success
  type: str
  sample: gpulab.io/driver-upgrade
isolation:
  description: The current isolation, or the one that was ended. Empty if the node was not isolated.
  returned: success
  type: dict
  contains:
    reason:
      description: Reason.
      type: str
    since:
      description: Start time in UTC.
      type: str
    policy:
      description: V(taint) or V(cordon).
      type: str
    was_cordoned:
      description: Whether the node was already cordoned before.
      type: bool
  sample:
    reason: "GPU 0: Xid 79: the GPU has fallen off the bus"
    since: "2026-11-22T05:06:25Z"
    policy: taint
    was_cordoned: false
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster.api import Api
from ..module_utils._cluster.isolation import isolate, result
from ..module_utils._cluster.maintenance import Maintenance
from ..module_utils._cluster.records import CORDON, ISOLATION, TAINT
from ..module_utils._module import run
from ..module_utils._words import written


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    work = Maintenance(Api(params["kubeconfig"]), params["node"], ISOLATION, module.check_mode, params["identity"])
    for warning in work.warnings:
        module.warn(warning)
    if params["state"] == "isolated":
        now = written(time.time()) or ""
        isolate(work, params["policy"], params["reason"], now, params["during_work"])
    else:
        work.end()
    return result(work)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "node": {"type": "str", "required": True},
            "identity": {"type": "dict"},
            "state": {"type": "str", "choices": ["isolated", "returned"], "default": "isolated"},
            "policy": {"type": "str", "choices": [TAINT, CORDON], "default": TAINT},
            "reason": {"type": "str", "default": ""},
            "during_work": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
