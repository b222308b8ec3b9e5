#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_pods_info
short_description: List the running pods of this host that use GPUs
version_added: 0.1.0
description:
  - Reads the kubelet's records of allocated devices (resources C(nvidia.com/*), and claims for devices of NVIDIA's DRA
    driver C(gpu.nvidia.com)) and checks which pods have running processes. Needs neither the API nor the container
    runtime, so it works even if both are down.
  - The kubelet does not record whether a claim has C(adminAccess), so pods that monitor GPUs by such a claim are
    listed, too.
  - Pods that can access GPUs without requesting them, such as the device plugin itself, are not listed.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  kubelet_root:
    description: Root directory of the kubelet.
    type: path
    default: /var/lib/kubelet
  proc:
    description: Mount point of the proc file system.
    type: path
    default: /proc
  pod_logs:
    description: >-
      Directory of the pods' logs. The namespaces and names of the pods are read from the names of its subdirectories.
    type: path
    default: /var/log/pods
  timeout:
    description: >-
      How long to wait, in seconds, until there are no such pods. The last processes of a pod may live some seconds
      longer than the API shows it.
    type: float
    default: 0
    version_added: 0.2.0
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: List the pods that a restart would interrupt
  gpulab.kubernetes.gpu_pods_info:
  register: gpu_pods
"""

RETURN = r"""
pods:
  description: Pods, sorted by UID.
  returned: always
  type: list
  elements: dict
  contains:
    uid:
      description: UID of the pod.
      type: str
    namespace:
      description: Namespace of the pod, empty if its logs no longer exist.
      type: str
    name:
      description: Name of the pod, empty if its logs no longer exist.
      type: str
    devices:
      description: IDs of the pod's devices, usually UUIDs. A device of a claim is C(DRIVER/POOL/DEVICE).
      type: list
      elements: str
    resources:
      description: Resources that the pod requested, and C(gpu.nvidia.com) for claims.
      type: list
      elements: str
    empty_dirs:
      description: The pod's emptyDir volumes, whose contents are lost when the pod ends.
      type: list
      elements: str
      version_added: 0.2.0
  sample:
    - uid: 0f1f2a5e-3f61-4e3e-8a51-6b0f2b1a9d10
      namespace: research
      name: train-0
      devices: [GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11]
      resources: [nvidia.com/gpu]
      empty_dirs: [cache]
"""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._nvidia.kubelet_devices import running_gpu_pods

_PAUSE = 0.5


def run_module(module: AnsibleModule) -> dict[str, Any]:
    places = [Path(module.params[name]) for name in ("kubelet_root", "proc", "pod_logs")]
    deadline = time.monotonic() + module.params["timeout"]
    while (pods := running_gpu_pods(*places)) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    return {"pods": [asdict(pod) for pod in pods]}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubelet_root": {"type": "path", "default": "/var/lib/kubelet"},
            "proc": {"type": "path", "default": "/proc"},
            "pod_logs": {"type": "path", "default": "/var/log/pods"},
            "timeout": {"type": "float", "default": 0},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
