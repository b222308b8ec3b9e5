#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_settings
short_description: Load kernel modules and set sysctl values, now and for the next boot
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Makes sure that kernel modules are loaded and that kernel parameters have their values on the running system, and
    writes the two files that bring the same about at the next boot.
  - Modules are looked after first, as some parameters exist only once their module is loaded.
  - A module counts as loaded when it is in C(/proc/modules) or C(/sys/module), or built into the kernel.
  - Modules and parameters that are not named stay as they are.
options:
  modules:
    description:
      - Kernel modules to load and to keep in O(modules_file).
      - Without this option modules and O(modules_file) are left alone.
    type: list
    elements: str
  sysctls:
    description:
      - Kernel parameters and their values.
      - Without this option parameters and O(sysctl_file) are left alone.
      - Keys with a slash as their first separator are taken as C(systemd-sysctl) does, for interface names with dots.
    type: dict
  modules_file:
    description: File for C(systemd-modules-load). The module owns it.
    type: path
    default: /etc/modules-load.d/gpulab.conf
  sysctl_file:
    description: File for C(systemd-sysctl). The module owns it.
    type: path
    default: /etc/sysctl.d/95-gpulab.conf
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
    details:
      - A parameter that doesn't exist yet counts as one that would be set when a module would be loaded as well.
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Prepare the kernel for pods
  gpulab.kubernetes.kernel_settings:
    modules:
      - overlay
      - br_netfilter
    sysctls:
      net.ipv4.ip_forward: 1
      net.bridge.bridge-nf-call-iptables: 1
"""

RETURN = r"""
modules_loaded:
  description: Modules that were loaded by this run, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [br_netfilter]
sysctls_set:
  description: Parameters whose value on the running kernel was changed by this run, or would be in check mode.
  returned: success
  type: dict
  sample: {net.ipv4.ip_forward: "1"}
overridden:
  description:
    - Parameters that another file in a C(sysctl.d) directory sets to another value at the next boot, because it is read
      after O(sysctl_file). Each of them also gives a warning.
  returned: success
  type: list
  elements: dict
  contains:
    key:
      description: The parameter, as in O(sysctls).
      type: str
    value:
      description: The value it will get.
      type: str
    file:
      description: The file that sets it.
      type: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.kernel_settings import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
