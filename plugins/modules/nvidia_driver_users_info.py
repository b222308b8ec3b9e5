#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_users_info
short_description: List the processes that use the NVIDIA driver of this host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Lists the processes that have a device node of the driver open, with their systemd service or pod.
  - Queries systemd which of these services and of O(services) are running, so that they can be stopped and started
    again.
options:
  services:
    description: Services that usually use the driver.
    type: list
    elements: str
    default: []
  proc:
    description: Mount point of the proc file system.
    type: path
    default: /proc
  pod_logs:
    description: >-
      Directory of the pods' logs. The namespaces and names of the pods are read from the names of its subdirectories.
    type: path
    default: /var/log/pods
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: Read what prevents the driver from being unloaded
  gpulab.kubernetes.nvidia_driver_users_info:
    services: [nvidia-persistenced, nvidia-fabricmanager]
  register: driver
"""

RETURN = r"""
users:
  description: Processes, sorted by ID.
  returned: success
  type: list
  elements: dict
  contains:
    pid:
      description: Process ID.
      type: int
    name:
      description: Name of the program.
      type: str
    unit:
      description: Systemd service, empty if it belongs to a pod or a login session.
      type: str
    pod:
      description: >-
        Pod as C(namespace/name), or the pod's UID if its logs no longer exist; empty if the process does not belong to
        a pod.
      type: str
    devices:
      description: Device nodes that the process has open.
      type: list
      elements: str
  sample:
    - pid: 811
      name: nvidia-persiste
      unit: nvidia-persistenced.service
      pod: ""
      devices: [/dev/nvidia0, /dev/nvidiactl]
services:
  description: Running services of O(services), in that order, followed by other services that use the driver.
  returned: success
  type: list
  elements: str
  sample: [nvidia-persistenced.service]
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._command import Runner
from ..module_utils._module import run
from ..module_utils._nvidia.device_users import driver_users
from ..module_utils._nvidia.kubelet_devices import pod_names
from ..module_utils._systemd import Systemd, full_name


def run_module(module: AnsibleModule) -> dict[str, Any]:
    users = driver_users(Path(module.params["proc"]), pod_names(Path(module.params["pod_logs"])))
    systemd = Systemd(Runner(module, timeout=30))
    named = [full_name(name) for name in module.params["services"]]
    others = sorted({user.unit for user in users if user.unit} - set(named))
    services = [name for name in dict.fromkeys([*named, *others]) if systemd.unit(name).running]
    return {"users": [asdict(user) for user in users], "services": services}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "services": {"type": "list", "elements": "str", "default": []},
            "proc": {"type": "path", "default": "/proc"},
            "pod_logs": {"type": "path", "default": "/var/log/pods"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
