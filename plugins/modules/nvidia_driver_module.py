#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_module
short_description: Load the NVIDIA kernel module in an exact version, or unload it
version_added: 0.1.0
description:
  - Loads C(nvidia) and judges by C(/proc/driver/nvidia/version). Another version that is loaded, or nouveau, is
    unloaded first where nobody uses it; where somebody does, RV(reboot_required) is true and nothing is changed.
  - With it C(nvidia_modeset) and C(nvidia_uvm) are loaded, whose devices containers are given as well, also where only
    one of these is missing.
  - Makes the initial ramdisk anew when it is older than the blacklist and nouveau could be loaded from it.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  version:
    description: The driver's version as the kernel module reports it. Needed with O(state=loaded).
    type: str
  state:
    description:
      - With V(absent) the module is unloaded in whatever version. Where somebody uses it, RV(reboot_required) is true
        and it stays as it was.
    type: str
    choices: [loaded, absent]
    default: loaded
    version_added: 0.2.0
  blacklist:
    description:
      - The file in C(/etc/modprobe.d) that keeps nouveau out. Empty means that the initial ramdisk is left alone.
    type: path
    default: ""
  further:
    description:
      - Modules of others to load with it, such as RV(modules) of an earlier call. One that can't be loaded is a
        warning.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
    details: [Whether a reboot would be required can't be known before the unloading is tried.]
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Load the driver
  gpulab.kubernetes.nvidia_driver_module:
    version: 580.178.04
    blacklist: /etc/modprobe.d/gpulab-nouveau.conf

- name: Unload it before its packages change
  gpulab.kubernetes.nvidia_driver_module:
    state: absent
"""

RETURN = r"""
loaded_before:
  description: The version that was loaded before, empty when there was none.
  returned: always
  type: str
  sample: ""
loaded_version:
  description: The version that is loaded now, empty when there is none.
  returned: always
  type: str
  sample: 580.178.04
reboot_required:
  description: Whether only a reboot brings the wanted version, or ends the use of the loaded one.
  returned: always
  type: bool
began:
  description: >-
    When this began, in UTC, by the host's clock. Where the driver was loaded by it, what the kernel log said before is
    of another one.
  returned: success
  type: str
  sample: "2026-11-22T05:06:25Z"
modules:
  description: Modules that were loaded beside the driver's own, and had to be unloaded with them.
  returned: always
  type: list
  elements: str
  sample: [nvidia_peermem]
reason:
  description: Why a reboot is required, empty when it is not.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.nvidia_driver_module import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
