#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_state
short_description: Bring several things of a cluster into their states, in one execution
version_added: 0.2.0
description:
  - Does what the modules named in O(states) would do one after the other, with the same arguments and results, in one
    process. Each execution that is saved saves about a second.
  - In check mode it returns everything that is pending in the cluster.
  - All arguments are checked before the first state is touched. The first state that fails ends the module.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  kubeconfig:
    description: Kubeconfig file of the cluster. Each state gets it.
    type: path
    required: true
  states:
    description: What is brought about or read, in this order.
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
          - cluster_objects
          - gpu_plugins_info
          - gpu_sharing_info
          - node_pools
          - wait_for_rollout
      when:
        description: Whether it is brought about at all, so that a list of states can hold those of all cases.
        type: bool
        default: true
      args:
        description: Its arguments, without the kubeconfig.
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
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Find out what is pending
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
  description: The result of each state that O(states[].when) allows, by its name, as its module documents it.
  returned: when the arguments are right; after a failure those of the states before the one that failed
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
from ..module_utils._states import (
    cluster_objects,
    gpu_plugins_info,
    gpu_sharing_info,
    node_pools,
    wait_for_rollout,
)
from ..module_utils._states.several import by_name, ensure, specification

STATES = by_name(
    cluster_objects,
    gpu_plugins_info,
    gpu_sharing_info,
    node_pools,
    wait_for_rollout,
)


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
