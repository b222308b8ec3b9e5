#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_for_rollout
short_description: Wait until workloads run on given nodes, the GPU Operator is ready, and GPUs are allocatable
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Waits until each given node has a ready pod of each DaemonSet, created from its current template, and each
    Deployment is available. Other nodes of the cluster are ignored, so a node that is down does not block the others.
  - With O(cluster_policy) it waits until C(.status.state) of the GPU Operator's ClusterPolicy is C(ready), the current
    operator is the leader, and the DaemonSets of the ClusterPolicy are rolled out. The operator must also have found
    the nodes of O(allocatable) with GPUs.
  - It fails after the time limit, or if a pod has had a problem that rarely resolves itself, such as an image that
    can't be pulled, for one minute. The error lists everything that is missing, with the node, the cause, and the last
    lines of the pod's log.
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
  cluster_policy:
    description:
      - Name of the ClusterPolicy whose operands must be ready. In NVIDIA's chart, it is C(cluster-policy).
      - O(namespace) is then the namespace of the operator and its operands.
      - With O(nodes), operands on other nodes are ignored, and so is the state of the ClusterPolicy, which covers all
        nodes.
    type: str
    default: ""
  nodes:
    description: Names of the nodes in the cluster.
    type: list
    elements: str
    default: []
  nodes_ready:
    description: Whether the nodes themselves must also be ready.
    type: bool
    default: false
  allocatable:
    description:
      - By node name, the number of C(nvidia.com/gpu) that must be allocatable, or a mapping from the resources of its
        GPUs to amounts. With a mapping, no other GPU resource may be allocatable.
    type: dict
    default: {}
  tolerate_unhealthy:
    description:
      - Whether GPUs that the device plugin reports as unhealthy cause only a warning, provided that nothing else has
        been missing for 15 seconds. Use it if you check each GPU afterwards.
    type: bool
    default: false
  settle:
    description:
      - Seconds for which everything must stay ready. Directly after a change the GPU Operator may still report its
        previous state.
    type: float
    default: 0
  timeout:
    description: Seconds to wait. V(0) checks once.
    type: float
    default: 300
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
attributes:
  check_mode:
    details:
      - It does not wait in check mode, because the changes before it may only have been predicted. It returns what is
        missing.
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

- name: Wait until all operands of the GPU Operator are ready
  gpulab.kubernetes.wait_for_rollout:
    kubeconfig: /run/user/1000/kubeconfig
    namespace: gpu-operator
    cluster_policy: cluster-policy
    timeout: 900
"""

RETURN = r"""
missing:
  description:
    - What is missing. If anything is missing, the module fails, except in check mode and with
      O(tolerate_unhealthy=true).
  returned: always
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node, empty if the problem concerns the whole cluster.
      type: str
    text:
      description: What is missing, and why.
      type: str
  sample: []
inconclusive:
  description: Whether the failure proves nothing, because the API did not answer or an image can't be pulled.
  returned: failure
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.wait_for_rollout import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
