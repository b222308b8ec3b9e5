#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_state
short_description: Apply several states to a host in one remote execution
version_added: 0.2.0
description:
  - Runs the modules listed in O(states) in order, in one process. Each module takes the same arguments and returns the
    same results as on its own. This saves about half a second per module.
  - In check mode, it returns all changes that are pending on the host.
  - All arguments are validated before the first state is applied. The module stops at the first state that fails or
    that requires a reboot.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  states:
    description: States to apply, in this order. The list must not be empty.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the state in RV(states) and in messages. It must be unique.
        type: str
        required: true
      module:
        description: Module of this collection that applies the state.
        type: str
        required: true
        choices:
          - apt_packages
          - apt_source
          - docker_daemon_config
          - gpu_host_info
          - hosts_file
          - kernel_settings
          - kubeadm_images
          - kubeadm_init
          - kubeadm_join
          - managed_files
          - managed_service
          - nvidia_cdi_spec
          - nvidia_kernel_module
          - nvidia_mig
          - swap
      when:
        description: Whether to apply the state.
        type: bool
        default: true
      args:
        description: Arguments of the module.
        type: dict
        default: {}
  only:
    description: Names of the states to apply; all if not specified. The order is that of O(states).
    type: list
    elements: str
  except:
    description: Names of the states that are not applied.
    type: list
    elements: str
  apt:
    description:
      - Common options for all states that use M(gpulab.kubernetes.apt_source) or M(gpulab.kubernetes.apt_packages). The
        arguments of a state take precedence.
    type: dict
    default: {}
    suboptions:
      lock_timeout:
        description: Seconds to wait while another package manager holds the lock.
        type: float
      http_proxy:
        description: URL of the proxy for C(http) URLs.
        type: str
      https_proxy:
        description: URL of the proxy for C(https) URLs.
        type: str
      no_proxy:
        description: Hosts and domains to reach without a proxy.
        type: list
        elements: str
      credentials:
        description: User names and passwords for repositories, as in M(gpulab.kubernetes.apt_source).
        type: list
        elements: dict
        suboptions:
          machine:
            description: The repositories, as C([protocol://]host[:port][/path]).
            type: str
            required: true
          username:
            description: User name.
            type: str
            required: true
          password:
            description: Password.
            type: str
            required: true
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.full
"""

EXAMPLES = r"""
- name: Find out which changes are pending
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

- name: Install Kubernetes from a mirror behind a proxy
  gpulab.kubernetes.host_state:
    apt:
      http_proxy: http://proxy.example.org:3128
    states:
      - name: repository
        module: apt_source
        args:
          name: kubernetes
          uris: http://mirror.example.org/kubernetes
          key_url: http://mirror.example.org/kubernetes/Release.key
      - name: packages
        module: apt_packages
        args:
          packages: [{name: kubelet, version: 1.36.4-1.1}]
"""

RETURN = r"""
states:
  description: Result of each state that was not skipped by O(states[].when), by name, as documented by its module.
  returned: >-
    if the arguments are valid; after a failure only the states before the failed one, otherwise up to and including a
    state that requires a reboot
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

# The only list of the states; each is imported, because Ansible copies a module's imports to the host.
from ..module_utils._states import (  # noqa: F401  # pylint: disable=unused-import
    apt_packages,
    apt_source,
    docker_daemon_config,
    gpu_host_info,
    hosts_file,
    kernel_settings,
    kubeadm_images,
    kubeadm_init,
    kubeadm_join,
    managed_files,
    managed_service,
    nvidia_cdi_spec,
    nvidia_kernel_module,
    nvidia_mig,
    swap,
)
from ..module_utils._states.several import ensure, specification, states_in

STATES = states_in(globals())


def _without_default(name: str) -> dict[str, Any]:
    return {key: value for key, value in apt_source.SPECIFICATION["argument_spec"][name].items() if key != "default"}


APT = {
    name: _without_default(name) for name in ("lock_timeout", "http_proxy", "https_proxy", "no_proxy", "credentials")
}


def run_module(module: AnsibleModule) -> dict[str, Any]:
    given = {name: value for name, value in (module.params["apt"] or {}).items() if value is not None}
    return ensure(module, STATES, given)


def main() -> None:
    module = QuietModule(
        argument_spec={
            "states": specification(STATES),
            "only": {"type": "list", "elements": "str"},
            "except": {"type": "list", "elements": "str"},
            "apt": {"type": "dict", "default": {}, "options": APT},
        },
        mutually_exclusive=[("only", "except")],
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
