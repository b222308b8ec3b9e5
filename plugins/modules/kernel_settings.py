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
  - Ensures that kernel modules are loaded and kernel parameters are set on the running system, and writes the two files
    that have the same effect at the next boot.
  - Loads the modules first, because some parameters exist only after their module is loaded.
  - A module counts as loaded if it is in C(/proc/modules) or C(/sys/module), or is built into the kernel.
  - Other modules and parameters are not changed.
options:
  modules:
    description:
      - Kernel modules to load and to keep in O(modules_file).
      - Without this option, modules and O(modules_file) are not changed.
    type: list
    elements: str
  sysctls:
    description:
      - Kernel parameters and their values.
      - Without this option, parameters and O(sysctl_file) are not changed.
      - Keys with a slash as their first separator are interpreted as in C(systemd-sysctl), for interface names with
        dots.
    type: dict
  minimums:
    description:
      - Kernel parameters that must be at least as large as the given numbers, unless they are in O(sysctls).
      - A parameter that is large enough is neither changed nor written to O(sysctl_file). If a parameter can't be
        raised, there is a warning. Parameters that this kernel does not have are skipped.
    type: dict
    default: {}
    version_added: 0.2.0
  modules_file:
    description: File for C(systemd-modules-load). It is managed as a whole.
    type: path
    default: /etc/modules-load.d/gpulab.conf
  sysctl_file:
    description: File for C(systemd-sysctl). It is managed as a whole.
    type: path
    default: /etc/sysctl.d/95-gpulab.conf
  recorded:
    description:
      - Further kernel parameters whose values are recorded, with those of this module, before the first change of a
        host. P(gpulab.kubernetes.reset#role) restores them.
    type: list
    elements: str
    default: []
    version_added: 0.3.0
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
    details:
      - If a module would be loaded, parameters that don't exist yet are predicted as set.
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
    - Parameters that another file in a C(sysctl.d) directory will set to a different value at the next boot, because it
      is read after O(sysctl_file). Each of them also causes a warning.
  returned: success
  type: list
  elements: dict
  contains:
    key:
      description: The parameter, as in O(sysctls).
      type: str
    value:
      description: Value that the parameter will have.
      type: str
    file:
      description: File that sets the parameter.
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
