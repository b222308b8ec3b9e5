#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wandb_agents_info
short_description: Read the W&B Launch agents of a cluster and the state of their jobs
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the agents of the role C(wandb_launch) and the pods that they have started, in all namespaces.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.reader
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Read the agents
  gpulab.kubernetes.wandb_agents_info:
    kubeconfig: /run/user/1000/kubeconfig
"""

RETURN = r"""
agents:
  description: The agents. If an agent is not alive, C(trouble) is the reason and C(log) the last lines of its log.
  returned: success
  type: list
  elements: dict
  sample: [{name: launch-agent, namespace: wandb, alive: true, pod: "", trouble: "", log: []}]
jobs:
  description: >-
    Pods of the jobs. If a pod does not run, C(trouble) is the reason. A pod that is C(orphaned) goes on although its
    Job was deleted.
  returned: success
  type: list
  elements: dict
  sample:
    - {name: launch-p-x7k2q, namespace: default, phase: Running, node: gpu1, gpus: 2, trouble: "", orphaned: false}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster.api import Api
from ..module_utils._module import run
from ..module_utils._wandb.agents import read


def run_module(module: AnsibleModule) -> dict[str, Any]:
    found = read(Api(module.params["kubeconfig"]))
    for pod in found["jobs"]:
        if pod["orphaned"]:
            module.warn(
                f"The Job {pod['namespace']}/{pod['name']} no longer exists, but its pod holds {pod['gpus']} GPUs. The "
                "report shows how to delete it."
            )
    return found


def main() -> None:
    module = AnsibleModule(
        argument_spec={"kubeconfig": {"type": "path", "required": True}},
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
