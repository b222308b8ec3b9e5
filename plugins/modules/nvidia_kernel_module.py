#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_kernel_module
short_description: Load a given version of the NVIDIA kernel module, or unload the module
version_added: 0.2.0
description:
  - Loads C(nvidia) and checks the result in C(/proc/driver/nvidia/version). If another version or nouveau is loaded, it
    is unloaded first. If it is in use, RV(reboot_required) is true and nothing is changed.
  - Also loads C(nvidia_modeset) and C(nvidia_uvm), whose devices containers need, even if only one of them is missing.
  - Rebuilds the initial ramdisks of the running kernel and of the newest one if they are older than O(blacklist) and
    may contain nouveau.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  version:
    description: Version of the driver, as reported by the kernel module. Required with O(state=loaded).
    type: str
  state:
    description:
      - With V(absent), the module is unloaded, whatever its version. If it is in use, RV(reboot_required) is true and
        nothing is changed.
    type: str
    choices: [loaded, absent]
    default: loaded
  blacklist:
    description:
      - File in C(/etc/modprobe.d) that blocks nouveau. Empty means that no initial ramdisk is changed.
    type: path
    default: ""
  further:
    description:
      - Additional modules to load, such as RV(modules) of an earlier call. A module that can't be loaded causes a
        warning.
    type: list
    elements: str
    default: []
  modules:
    description:
      - Kind of the kernel modules. If modules of the other kind are loaded, they are unloaded first, even if their
        version is the requested one. Empty means either kind.
    type: str
    choices: ["", open, proprietary]
    default: ""
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
    details: [Whether a reboot is required is known only after an attempt to unload the module.]
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Load the driver
  gpulab.kubernetes.nvidia_kernel_module:
    version: 580.178.04
    blacklist: /etc/modprobe.d/gpulab-nouveau.conf

- name: Unload the driver before its packages change
  gpulab.kubernetes.nvidia_kernel_module:
    state: absent
"""

RETURN = r"""
loaded_before:
  description: Version that was loaded before, empty if there was none.
  returned: always
  type: str
  sample: ""
loaded_version:
  description: Version that is loaded now, empty if there is none.
  returned: always
  type: str
  sample: 580.178.04
reboot_required:
  description: Whether a reboot is required to load the requested version, or to unload the loaded one.
  returned: always
  type: bool
began:
  description: >-
    Start time of this call in UTC, by the host's clock. If the call has loaded the driver, earlier messages in the
    kernel log are from another driver.
  returned: success
  type: str
  sample: "2026-11-22T05:06:25Z"
modules:
  description: Other modules that had to be unloaded together with the driver's own modules.
  returned: always
  type: list
  elements: str
  sample: [nvidia_peermem]
reason:
  description: Reason why a reboot is required, empty if it is not.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.nvidia_kernel_module import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
