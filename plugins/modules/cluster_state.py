#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_state
short_description: Apply several states to a cluster in one execution
version_added: 0.2.0
description:
  - Runs the modules listed in O(states) in order, in one process. Each module takes the same arguments and returns the
    same results as on its own. This saves about a second per module.
  - In check mode, it returns all changes that are pending in the cluster.
  - All arguments are validated before the first state is applied. The module stops at the first state that fails.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  kubeconfig:
    description: Kubeconfig file of the cluster. It is passed to each state.
    type: path
    required: true
  states:
    description: States to apply or read, in this order. The list must not be empty.
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
          - cluster_objects
          - gpu_plugins_info
          - gpu_sharing_info
          - node_pools
          - wait_for_rollout
      when:
        description: Whether to apply the state.
        type: bool
        default: true
      args:
        description: Arguments of the module, without the kubeconfig.
        type: dict
        default: {}
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.full
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Find out which changes are pending
  gpulab.kubernetes.cluster_state:
    kubeconfig: /run/user/1000/kubeconfig
    states:
      - name: pools
        module: node_pools
        args:
          nodes: [{name: gpu1, labels: {gpulab.io/pool: a100}}]
      - name: plugins
        module: gpu_plugins_info
  check_mode: true
  register: pending
"""

RETURN = r"""
states:
  description: Result of each state that was not skipped by O(states[].when), by name, as documented by its module.
  returned: if the arguments are valid; after a failure, only the states before the failed one
  type: dict
  sample:
    pools: {changed: false, changes: {}}
failed_state:
  description: Name of the state that failed.
  returned: failure of a state
  type: str
  sample: pools
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import QuietModule, run

# The only list of the states; each is imported, because Ansible copies a module's imports to the host.
from ..module_utils._states import (  # noqa: F401  # pylint: disable=unused-import
    cluster_objects,
    gpu_plugins_info,
    gpu_sharing_info,
    node_pools,
    wait_for_rollout,
)
from ..module_utils._states.several import ensure, specification, states_in

STATES = states_in(globals())


def run_module(module: AnsibleModule) -> dict[str, Any]:
    return ensure(module, STATES, {"kubeconfig": module.params["kubeconfig"]})


def main() -> None:
    module = QuietModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "states": specification(STATES),
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
