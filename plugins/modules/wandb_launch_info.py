#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wandb_launch_info
short_description: Read the number of jobs in W&B Launch queues, and check an agent's configuration
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Uses the W&B SDK. It fails if the SDK is missing, if the server can't be used, or if W&B rejects the key or the
    entity.
options:
  queues:
    description: Names of the queues to read.
    type: list
    elements: str
    default: []
  agent_config:
    description: Configuration of a launch agent, which is validated with wandb's own data model.
    type: dict
    default: {}
extends_documentation_fragment:
  - gpulab.kubernetes.wandb
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: Read a queue
  gpulab.kubernetes.wandb_launch_info:
    api_key: "{{ lookup('ansible.builtin.file', '~/wandb.key') }}"
    entity: my-team
    queues: [gpu]
  delegate_to: localhost
"""

RETURN = r"""
names:
  description: Names of all queues of the entity.
  returned: success
  type: list
  elements: str
  sample: [gpu]
queues:
  description: >-
    For each of O(queues), the number of its first 100 items by state. Items in the state C(pending) wait for an agent.
    Null if the queue does not exist.
  returned: success
  type: dict
  sample: {gpu: {pending: 2, claimed: 1}}
"""

from typing import Any

from ..module_utils._errors import DomainError
from ..module_utils._module import QuietModule, run
from ..module_utils._wandb.server import Server, config_problems


def run_module(module: QuietModule) -> dict[str, Any]:
    params = module.params
    server = Server(params["base_url"], params["api_key"], params["entity"], params["ca_bundle"])
    if params["agent_config"] and (problems := config_problems(params["agent_config"])):
        raise DomainError(
            f"Error while checking the configuration of the launch agent: W&B rejects it: {'; '.join(problems)}. "
            "Check wandb_launch_agent_config. Nothing was changed."
        )
    names = server.names()
    return {
        "names": names,
        "queues": {name: server.states(name) if name in names else None for name in params["queues"]},
    }


def main() -> None:
    module = QuietModule(
        argument_spec={
            "base_url": {"type": "str", "default": "https://api.wandb.ai"},
            "ca_bundle": {"type": "path", "default": ""},
            "api_key": {"type": "str", "required": True, "no_log": True},
            "entity": {"type": "str", "required": True},
            "queues": {"type": "list", "elements": "str", "default": []},
            "agent_config": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
