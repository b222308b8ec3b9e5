#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_plugins_info
short_description: Read which software offers the cluster's GPUs to pods
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Lists NVIDIA's device plugins in all namespaces, with the nodes on which each plugin has a pod, and the
    ClusterPolicies of the GPU Operator. Two plugins on one node would both register C(nvidia.com/gpu), and the kubelet
    would use the plugin that registered last.
  - A pod that is being deleted counts until it is gone.
  - Also lists what NVIDIA's DRA driver offers (ResourceSlices and DeviceClasses of C(resource.k8s.io/v1); nothing if
    the cluster does not serve this API). A device plugin on the same node would give away the same GPUs.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Read which software offers the GPUs
  gpulab.kubernetes.gpu_plugins_info:
    kubeconfig: /run/user/1000/kubeconfig
  register: gpu_plugins
"""

RETURN = r"""
installers:
  description: DaemonSets of this collection that install a driver on the hosts.
  returned: success
  type: list
  elements: str
  sample: [driver-580-178-04]
dra:
  description: >-
    What NVIDIA's DRA driver (C(gpu.nvidia.com)) offers - C(gpus), the number of GPUs and parts of GPUs by node, and
    C(classes), the DeviceClasses with the resource that pods can request instead of a claim, or an empty string.
  returned: success
  type: dict
  version_added: 0.2.0
  sample: {gpus: {gpu1: 8}, classes: {gpu.nvidia.com: nvidia.com/gpu}}
problems:
  description: >-
    Nodes whose GPUs NVIDIA's DRA driver offers, and a device plugin, too, or as soon as one is installed, as a problem
    for P(gpulab.kubernetes.preflight_report#filter). A node with the label
    C(nvidia.com/gpu.deploy.device-plugin=false) gets no device plugin.
  returned: success
  type: list
  elements: dict
  version_added: 0.2.0
  sample: []
plugins:
  description: The device plugins, by namespace and name.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Namespace of the plugin.
      type: str
    name:
      description: Name of its DaemonSet, or of the other object that created its pods.
      type: str
    kind:
      description: Kind of the object that created its pods.
      type: str
    policy:
      description: ClusterPolicy to which the plugin belongs, empty if the plugin does not belong to the GPU Operator.
      type: str
    nodes:
      description: Nodes on which the plugin has a pod.
      type: list
      elements: str
  sample:
    - namespace: nvidia-device-plugin
      name: nvidia-device-plugin
      kind: DaemonSet
      policy: ""
      nodes: [gpu1]
shared:
  description: Plugins of each node that has more than one plugin.
  returned: success
  type: dict
  sample: {}
policies:
  description: Names of the ClusterPolicies.
  returned: success
  type: list
  elements: str
  sample: [cluster-policy]
driver_policies:
  description: >-
    Parts of each ClusterPolicy's C(spec) that determine the driver's pods (C(driver), C(daemonsets), C(hostPaths)), by
    name.
  returned: success
  type: dict
  sample: {cluster-policy: {driver: {enabled: true, version: 580.178.04}}}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.gpu_plugins_info import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
