#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_pods_info
short_description: List the running pods of this host that hold GPUs
version_added: 0.1.0
description:
  - Reads kubelet's record of allocated devices (resources C(nvidia.com/*)) and which pods have live processes. Needs
    neither the API nor the container runtime, so it answers when both are down.
  - Pods that reach GPUs without having asked for them, such as the device plugin itself, are not listed.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  kubelet_root:
    description: Kubelet's root directory.
    type: path
    default: /var/lib/kubelet
  proc:
    description: Where the proc file system is mounted.
    type: path
    default: /proc
  pod_logs:
    description: Directory of the pods' logs, from whose names namespace and name are taken.
    type: path
    default: /var/log/pods
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: See whose work a restart would interrupt
  gpulab.kubernetes.gpu_pods_info:
  register: gpu_pods
"""

RETURN = r"""
pods:
  description: The pods, by uid.
  returned: always
  type: list
  elements: dict
  contains:
    uid:
      description: The pod's uid.
      type: str
    namespace:
      description: Its namespace, empty when its logs are gone.
      type: str
    name:
      description: Its name, empty when its logs are gone.
      type: str
    devices:
      description: The ids of its devices, UUIDs as a rule.
      type: list
      elements: str
    resources:
      description: The resources that it asked for.
      type: list
      elements: str
    empty_dirs:
      description: Its volumes of the kind emptyDir, whose contents end with the pod.
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

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._nvidia.kubelet_devices import running_gpu_pods


def run_module(module: AnsibleModule) -> dict[str, Any]:
    places = (Path(module.params[name]) for name in ("kubelet_root", "proc", "pod_logs"))
    pods = running_gpu_pods(*places)
    return {"pods": [asdict(pod) for pod in pods]}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubelet_root": {"type": "path", "default": "/var/lib/kubelet"},
            "proc": {"type": "path", "default": "/proc"},
            "pod_logs": {"type": "path", "default": "/var/log/pods"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
