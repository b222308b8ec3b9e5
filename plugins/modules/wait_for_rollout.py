#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_for_rollout
short_description: Wait until workloads run on named nodes, the GPU Operator is ready, and GPUs are allocatable
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Waits until each node named has a ready pod of each DaemonSet, made from its present template, and each Deployment
    is available. Other nodes of the cluster don't matter, so one that is down does not hold up the others.
  - With O(cluster_policy) it waits for the GPU Operator, until C(.status.state) of its ClusterPolicy is C(ready), and
    the operator itself is the leader, and the DaemonSets that belong to the ClusterPolicy are rolled out. The nodes of
    O(allocatable) with GPUs must be ones that the operator has found.
  - It fails when the time is over, or when a pod has had a problem for a minute that seldom ends by itself, such as
    an image that can't be pulled. The error names each thing that is missing with its node and cause, and has the last
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
      - Name of the ClusterPolicy whose operands must be ready. NVIDIA's chart calls it C(cluster-policy).
      - O(namespace) is that of the operator and its operands then.
      - With O(nodes), operands on other nodes don't count, nor does the state of the ClusterPolicy, which is that of
        all nodes.
    type: str
    default: ""
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
      - Whether GPUs that the device plugin knows and calls unhealthy are a warning and no error, once nothing else has
        been missing for 15 seconds. For a caller that looks at each GPU afterwards.
    type: bool
    default: false
  settle:
    description:
      - How long everything must have been as wanted, in seconds. After a change the GPU Operator says for a moment that
        it is ready, because it has not looked yet.
    type: float
    default: 0
  timeout:
    description: How long to wait, in seconds. V(0) looks once.
    type: float
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

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.wait_for_rollout import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
