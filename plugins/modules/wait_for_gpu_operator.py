#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_for_gpu_operator
short_description: Former name of wait_for_rollout with cluster_policy
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Use M(gpulab.kubernetes.wait_for_rollout) with its option C(cluster_policy) instead.
deprecated:
  removed_in: 1.0.0
  why: One module waits for every kind of rollout.
  alternative: Use M(gpulab.kubernetes.wait_for_rollout).
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
    description: Name of the ClusterPolicy.
    type: str
    default: cluster-policy
  settle:
    description: How long it must have been ready, in seconds.
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
    details: [It does not wait in check mode. What is missing is returned.]
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
  description: What is not ready, as M(gpulab.kubernetes.wait_for_rollout) returns it.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ..module_utils._cluster.api import KUBERNETES_ERROR, Api
from ..module_utils._cluster.rollout import Wanted
from ..module_utils._cluster.rollout_wait import Waiter
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
    if KUBERNETES_ERROR is not None:
        module.fail_json(msg=missing_required_lib("kubernetes"), exception=str(KUBERNETES_ERROR))
    params = module.params
    try:
        waiter = Waiter(Api(params["kubeconfig"]), params["namespace"], Wanted(cluster_policy=params["policy"]))
        found = waiter.look() if module.check_mode else waiter.wait(params["timeout"], params["settle"])
    except DomainError as error:
        module.fail_json(msg=str(error), **error.fields)
    module.exit_json(changed=False, missing=[entry.fields() for entry in found])


if __name__ == "__main__":
    main()
