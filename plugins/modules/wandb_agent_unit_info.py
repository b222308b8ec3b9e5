#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wandb_agent_unit_info
short_description: Read the state of the W&B Launch agent on a host with Docker, and of its jobs
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the systemd unit of the agent, its journal, and the containers of its jobs. The result has the same form as
    that of M(gpulab.kubernetes.wandb_agents_info).
options:
  unit:
    description: Systemd unit of the agent.
    type: str
    required: true
  host:
    description: Name of the host in the result.
    type: str
    required: true
  jobs:
    description: Whether to read the containers of jobs.
    type: bool
    default: true
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.reader
  - gpulab.kubernetes.attributes.root
"""

EXAMPLES = r"""
- name: Read the state of the agent
  gpulab.kubernetes.wandb_agent_unit_info:
    unit: wandb-launch-agent
    host: "{{ inventory_hostname }}"
  become: true
"""

RETURN = r"""
agents:
  description: >-
    The agent, if the unit exists. C(namespace) is the host. If the agent is not alive, C(trouble) is the reason and
    C(log) the last lines of its log. If the last image that it built failed, C(build) is the end of the output.
  returned: success
  type: list
  elements: dict
  sample: [{name: wandb-launch-agent, namespace: gpubox, alive: true, pod: "", trouble: "", log: [], build: []}]
jobs:
  description: Containers of running jobs.
  returned: success
  type: list
  elements: dict
  sample: [{name: hello, namespace: gpubox, phase: Running, node: gpubox, gpus: 2, trouble: ""}]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._command import Runner
from ..module_utils._module import run
from ..module_utils._nvidia import pci
from ..module_utils._wandb.docker_agent import read


def run_module(module: AnsibleModule) -> dict[str, Any]:
    # Docker can't use GPUs that are assigned to virtual machines.
    gpus = sum(gpu["driver"] != "vfio-pci" for gpu in pci.gpus(module.params["root"])[0])
    params = module.params
    return read(Runner(module, timeout=60), params["unit"], params["host"], gpus, params["jobs"])


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "host": {"type": "str", "required": True},
            "jobs": {"type": "bool", "default": True},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
