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

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._command import Runner
from ..module_utils._module import run
from ..module_utils._nvidia.kernel_module import Driver
from ..module_utils._nvidia.xid import written


def run_module(module: AnsibleModule) -> dict[str, Any]:
    loaded = module.params["state"] == "loaded"
    version = module.params["version"] if loaded else ""
    blacklist, further = module.params["blacklist"] or "", module.params["further"]
    began = written(time.time())
    driver = Driver(Runner(module, timeout=600), module.params["root"], module.check_mode)
    outcome = driver.ensure(version, blacklist, further) if loaded else driver.remove()
    for warning in outcome.warnings:
        module.warn(warning)
    return {
        "changed": outcome.changed,
        "began": began,
        "modules": outcome.modules,
        "loaded_before": outcome.loaded_before,
        "loaded_version": outcome.loaded_version,
        "reboot_required": outcome.reboot_required,
        "reason": outcome.reason,
        "diff": {
            "before_header": "loaded NVIDIA driver",
            "after_header": "loaded NVIDIA driver",
            "before": f"{outcome.loaded_before or 'none'}\n",
            "after": f"{version or 'none'}\n",
        },
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str"},
            "state": {"type": "str", "choices": ["loaded", "absent"], "default": "loaded"},
            "blacklist": {"type": "path", "default": ""},
            "further": {"type": "list", "elements": "str", "default": []},
            "root": {"type": "path", "default": "/"},
        },
        required_if=[("state", "loaded", ["version"])],
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
