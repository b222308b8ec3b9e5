#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_pods_info
short_description: Read the pods that run on a node, their labels and their GPUs, without the Kubernetes API
version_added: 0.3.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Asks the container runtime through C(crictl) for its running pods, and reads the kubelet's records of devices.
  - A host without C(crictl), or without a kubelet, has no pods.
options:
  kubelet_root:
    description: Directory of the kubelet.
    type: path
    default: /var/lib/kubelet
  timeout:
    description: Time limit in seconds for C(crictl).
    type: int
    default: 30
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
seealso:
  - module: gpulab.kubernetes.cluster_restore
"""

EXAMPLES = r"""
- name: Read the pods of this node
  gpulab.kubernetes.node_pods_info:
  register: found
"""

RETURN = r"""
pods:
  description: The running pods.
  returned: success
  type: list
  elements: dict
  contains:
    uid:
      description: UID in the API; of a static pod, the hash of its manifest.
      type: str
    namespace:
      description: Namespace.
      type: str
    name:
      description: Name.
      type: str
    labels:
      description: The labels that show the owner of a pod.
      type: dict
    static:
      description: Whether the kubelet has it from a file, and not from the API.
      type: bool
    gpus:
      description: Number of GPUs, or of their parts, that the kubelet has given it.
      type: int
  sample:
    - uid: 1b4e28ba-2fa1-11d2-883f-0016d3cca427
      namespace: research
      name: train-x7k2p
      labels: {batch.kubernetes.io/job-name: train}
      static: false
      gpus: 2
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._backup.running import running_pods
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    return {"pods": running_pods(module, Path(module.params["kubelet_root"]), module.params["timeout"])}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubelet_root": {"type": "path", "default": "/var/lib/kubelet"},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
