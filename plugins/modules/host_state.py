#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_state
short_description: Bring several things of a host into their states, in one remote execution
version_added: 0.2.0
description:
  - Does what the modules named in O(states) would do one after the other, with the same arguments and results, in one
    process. Each remote execution that is saved saves about half a second.
  - In check mode it returns everything that is pending on the host.
  - All arguments are checked before the first state is touched. The first state that fails ends the module.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  states:
    description: What is brought about, in this order.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the state in RV(states) and in messages. Must not occur twice.
        type: str
        required: true
      module:
        description: The module of this collection that does it.
        type: str
        required: true
        choices:
          - apt_packages
          - apt_source
          - kernel_settings
          - kubeadm_images
          - kubeadm_init
          - kubeadm_join
          - managed_files
          - managed_service
          - nvidia_cdi_spec
          - nvidia_driver_module
          - nvidia_mig
          - swap
      when:
        description: Whether it is brought about at all, so that a list of states can hold those of all cases.
        type: bool
        default: true
      args:
        description: Its arguments.
        type: dict
        default: {}
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Find out what is pending
  gpulab.kubernetes.host_state:
    states:
      - name: kernel
        module: kernel_settings
        args:
          modules: [overlay, br_netfilter]
          sysctls: {net.ipv4.ip_forward: 1}
      - name: swap
        module: swap
  check_mode: true
  register: pending
"""

RETURN = r"""
states:
  description: The result of each state that O(states[].when) allows, by its name, as its module documents it.
  returned: when the arguments are right; after a failure those of the states before the one that failed
  type: dict
  sample:
    kernel: {changed: true, modules_loaded: [overlay], sysctls_set: []}
    swap: {changed: false}
failed_state:
  description: Name of the state that failed.
  returned: failure of a state
  type: str
  sample: swap
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import QuietModule, run
from ..module_utils._states import (
    apt_packages,
    apt_source,
    kernel_settings,
    kubeadm_images,
    kubeadm_init,
    kubeadm_join,
    managed_files,
    managed_service,
    nvidia_cdi_spec,
    nvidia_driver_module,
    nvidia_mig,
    swap,
)
from ..module_utils._states.several import by_name, ensure, specification

STATES = by_name(
    apt_packages,
    apt_source,
    kernel_settings,
    kubeadm_images,
    kubeadm_init,
    kubeadm_join,
    managed_files,
    managed_service,
    nvidia_cdi_spec,
    nvidia_driver_module,
    nvidia_mig,
    swap,
)


def run_module(module: AnsibleModule) -> dict[str, Any]:
    return ensure(module, STATES)


def main() -> None:
    module = QuietModule(
        argument_spec={
            "states": specification(STATES),
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
