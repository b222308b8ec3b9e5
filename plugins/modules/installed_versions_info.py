#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: installed_versions_info
short_description: Tell which versions a GPU host has in fact
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads dpkg's database, the loaded driver, its library, the kernels and what turns swap on. It runs no program.
  - The filter P(gpulab.kubernetes.drift#filter) compares that with what is wanted.
options:
  packages:
    description: Packages whose versions and holds are wanted.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
  - gpulab.kubernetes.attributes.root
"""

EXAMPLES = r"""
- name: Read what is there
  gpulab.kubernetes.installed_versions_info:
    packages: [containerd.io, kubelet]
  register: installed
"""

RETURN = r"""
packages:
  description: C(version) and C(held) of each of O(packages) that is installed.
  returned: success
  type: dict
  sample: {kubelet: {version: 1.36.4-1.1, held: true}}
driver:
  description: The NVIDIA driver.
  returned: success
  type: dict
  contains:
    loaded:
      description: The version of the loaded module, empty when there is none.
      type: str
    library:
      description: The version of NVML that programs get, empty when there is none.
      type: str
    packages:
      description: C(version) and C(held) of the packages that are of a driver.
      type: dict
  sample:
    loaded: 580.178.04
    library: 580.178.04
    packages: {nvidia-open-580: {version: 580.178.04-1, held: true}}
kernel:
  description: C(running), C(newest) (which the next boot takes), C(newest_has_driver) and C(newest_has_headers).
  returned: success
  type: dict
  sample:
    running: 6.12.48+deb13-amd64
    newest: 6.12.57+deb13-amd64
    newest_has_driver: false
    newest_has_headers: false
swap:
  description:
    - The active swap areas by C(name), each with what seems to turn it on (C(origin), empty when that is unknown).
    - An empty name stands for swap that is off, and will be on at the next boot.
  returned: success
  type: list
  elements: dict
  sample: [{name: /mnt/resource/swapfile, origin: "Azure's agent (/etc/waagent.conf)"}]
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._nvidia.installed import read


def run_module(module: AnsibleModule) -> dict[str, Any]:
    return read(module.params["root"], module.params["packages"], os.uname().release)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "list", "elements": "str", "default": []},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
