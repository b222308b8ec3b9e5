#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_for_gpu_operator
short_description: Wait until the GPU Operator says that all its operands are ready
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Waits until C(.status.state) of a ClusterPolicy is C(ready), and the operator itself and the DaemonSets that
    belong to the ClusterPolicy are rolled out.
  - When the time is over, or an operand has been in a trouble for a minute that seldom ends by itself, it fails and
    names each operand that is not ready, node and cause, with the last lines of the pod's log.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  namespace:
    description: Namespace of the operator and its operands.
    type: str
    default: gpu-operator
  policy:
    description: Name of the ClusterPolicy. NVIDIA's chart calls it C(cluster-policy).
    type: str
    default: cluster-policy
  settle:
    description:
      - How long it must have been ready, in seconds. After a change the operator says for a moment that it is ready,
        because it has not yet looked.
    type: float
    default: 0
  timeout:
    description: How long to wait, in seconds. V(0) looks once.
    type: float
    default: 600
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
- name: Wait until all operands are ready
  gpulab.kubernetes.wait_for_gpu_operator:
    kubeconfig: /run/user/1000/kubeconfig
    timeout: 900
"""

RETURN = r"""
missing:
  description: What is not ready. Anything missing is an error, but in check mode.
  returned: always
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node, empty when it is about the whole cluster.
      type: str
    text:
      description: Which operand, and why.
      type: str
  sample: []
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster.api import Api
from ..module_utils._cluster.operator_wait import Waiter
from ..module_utils._errors import DomainError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "namespace": {"type": "str", "default": "gpu-operator"},
            "policy": {"type": "str", "default": "cluster-policy"},
            "settle": {"type": "float", "default": 0},
            "timeout": {"type": "float", "default": 600},
        },
        supports_check_mode=True,
    )
    params = module.params
    started = time.monotonic()
    try:
        waiter = Waiter(Api(params["kubeconfig"]), params["namespace"], params["policy"])
        found = waiter.wait(*((0, 0) if module.check_mode else (params["timeout"], params["settle"])))
        result = {"missing": [{"node": entry.node, "text": entry.text} for entry in found]}
        if found and not module.check_mode:
            waited = f"{time.monotonic() - started:.0f} s"
            module.fail_json(
                msg=f"Error while waiting for the GPU Operator ({waited}), ClusterPolicy {params['policy']}:\n"
                f"{waiter.explain(found)}",
                **result,
            )
    except DomainError as error:
        module.fail_json(msg=str(error), **error.fields)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
