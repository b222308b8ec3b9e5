#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: file_system_info
short_description: Read the file system of a directory, its size and its quotas
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads C(/proc/mounts) and queries the kernel for sizes. If the directory does not exist yet, the nearest existing
    parent is used.
options:
  path:
    description: Absolute path of the directory.
    type: path
    required: true
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: Read the file system of a directory
  gpulab.kubernetes.file_system_info:
    path: /srv
"""

RETURN = r"""
mount:
  description: Mount point of the file system.
  returned: success
  type: str
  sample: /
device:
  description: Mounted device.
  returned: success
  type: str
  sample: /dev/sda1
type:
  description: Type of the file system.
  returned: success
  type: str
  sample: ext4
quotas:
  description: Mount options of the file system that enable quotas for users, groups or projects.
  returned: success
  type: list
  elements: str
  sample: [prjquota]
size_mib:
  description: Size of the file system in MiB.
  returned: success
  type: int
  sample: 102400
free_mib:
  description: Free space for users other than root in MiB.
  returned: success
  type: int
  sample: 51200
"""

import os
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import DomainError
from ..module_utils._host.file_system import mount_of
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    path = Path(module.params["path"])
    if not path.is_absolute():
        raise DomainError(f"Error while reading the file system of {path}: it must be an absolute path.")
    there = next(each for each in (path, *path.parents) if each.exists()).resolve()
    found = mount_of(Path("/proc/mounts").read_text(encoding="utf-8", errors="replace"), str(there))
    size = os.statvfs(there)
    return {
        "mount": found.mount,
        "device": found.device,
        "type": found.kind,
        "quotas": found.quotas,
        "size_mib": size.f_blocks * size.f_frsize // 2**20,
        "free_mib": size.f_bavail * size.f_frsize // 2**20,
    }


def main() -> None:
    run(AnsibleModule(argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True), run_module)


if __name__ == "__main__":
    main()
