#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_isolation
short_description: Keep new pods from a node whose GPUs are ill, or give it back
version_added: 0.2.0
description:
  - Taints or cordons a node, and remembers in its annotation C(gpulab.io/gpu-isolation) why, since when, and whether it
    was cordoned before. Running pods stay.
  - Giving it back takes away what this module did, and nothing else. A node that was cordoned before stays cordoned.
  - It verifies nothing. The role C(gpu_isolation) gives a node back only after its GPUs were proven.
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
  state:
    description:
      - V(isolated) - no new pods come to the node.
      - V(returned) - it is in use again.
    type: str
    choices: [isolated, returned]
    default: isolated
  policy:
    description:
      - V(taint) - a taint C(gpulab.io/gpu-isolated=true:NoSchedule), which pods can tolerate.
      - V(cordon) - the node is cordoned, which C(kubectl get nodes) shows.
    type: str
    choices: [taint, cordon]
    default: taint
  reason:
    description: Why, for people. Empty keeps the reason that is known.
    type: str
    default: ""
  during_work:
    description:
      - Whether a node is isolated on which somebody works, such as in an upgrade of the driver, in a change of how GPUs
        are shared, or drained before a restart. GPUs seem ill for that time. Without it such a node is left as it is,
        and RV(work) says so.
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
    details: [Shows annotations, taints and cordon of the node.]
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Keep new pods from a node
  gpulab.kubernetes.gpu_isolation:
    kubeconfig: /root/admin.conf
    node: gpu1
    reason: "GPU 0: Xid 79: the GPU has fallen off the bus"

- name: Give it back
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
    - The annotation or label that says that work on the node has begun and not ended. Empty where there is none.
  returned: success
  type: str
  sample: gpulab.io/driver-upgrade
isolation:
  description: How it is, or was before it was given back. Empty where it was not isolated.
  returned: success
  type: dict
  contains:
    reason:
      description: Why.
      type: str
    since:
      description: Since when, in UTC.
      type: str
    policy:
      description: V(taint) or V(cordon).
      type: str
    was_cordoned:
      description: Whether the node was cordoned before by another hand.
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
from ..module_utils._cluster.maintenance import CORDON, ISOLATION, TAINT, Maintenance
from ..module_utils._module import run
from ..module_utils._nvidia.xid import written


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    work = Maintenance(Api(params["kubeconfig"]), params["node"], ISOLATION, module.check_mode)
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
