#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wandb_queue
short_description: Create, change or delete a queue of W&B Launch
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the queue with the W&B SDK and writes it only if it differs from the declared state. Settings that were made
    in the W&B web interface but are not declared here are replaced.
  - W&B accepts resource arguments that its agent later refuses. This module refuses such arguments before anything is
    written.
options:
  name:
    description: Name of the queue.
    type: str
    required: true
  state:
    description: With V(absent) the queue is deleted, with its waiting jobs.
    type: str
    choices: [present, absent]
    default: present
  resource:
    description: Where the jobs of the queue run. V(local-container) means Docker.
    type: str
    choices: [kubernetes, local-container]
    default: kubernetes
  resource_args:
    description:
      - The Job (for V(kubernetes)) or the options of C(docker run) (for V(local-container)).
      - C({{name}}) is a template variable. In a playbook, tag such a string with C(!unsafe).
    type: dict
    default: {}
  template_variables:
    description: JSON schema of each template variable, such as V({"gpus":{"type":"integer","default":1,"maximum":4}}).
    type: dict
    default: {}
  prioritization:
    description: With V(V0), jobs may have priorities.
    type: str
    choices: [DISABLED, V0]
    default: DISABLED
extends_documentation_fragment:
  - gpulab.kubernetes.wandb
  - gpulab.kubernetes.attributes.full
"""

EXAMPLES = r"""
- name: Create a queue
  gpulab.kubernetes.wandb_queue:
    api_key: "{{ lookup('ansible.builtin.file', '~/wandb.key') }}"
    entity: my-team
    name: gpu
    resource_args:
      apiVersion: batch/v1
      kind: Job
      spec:
        template:
          spec:
            containers:
              - image: ${image_uri}
                resources:
                  limits:
                    nvidia.com/gpu: !unsafe "{{gpus}}"
    template_variables:
      gpus: {type: integer, default: 1, minimum: 1, maximum: 4}
  delegate_to: localhost
"""

RETURN = r"""
queue:
  description: The resulting queue, empty if there is none.
  returned: success
  type: dict
  sample: {name: gpu, resource: kubernetes, prioritization: DISABLED, template_variables: {}, resource_args: {}}
"""

from typing import Any

from ..module_utils._errors import DomainError
from ..module_utils._module import QuietModule, run
from ..module_utils._wandb.queue import Queue
from ..module_utils._wandb.refusals import refusals
from ..module_utils._wandb.server import Server


def run_module(module: QuietModule) -> dict[str, Any]:
    params = module.params
    given = ("name", "resource", "resource_args", "template_variables", "prioritization")
    wanted = Queue(*(params[name] for name in given)) if params["state"] == "present" else None
    if wanted and (refused := refusals(wanted.resource, wanted.arguments)):
        raise DomainError(
            f"Error while writing the queue {wanted.name}: the launch agent would refuse each of its jobs: "
            f"{'; '.join(refused)}. Remove this from its resource arguments. Nothing was changed."
        )
    server = Server(params["base_url"], params["api_key"], params["entity"], params["ca_bundle"])
    before = server.read(params["name"])
    if before != wanted and not module.check_mode:
        if wanted:
            server.write(wanted)
        else:
            server.delete(params["name"])
    sides = {"before": before.shown() if before else {}, "after": wanted.shown() if wanted else {}}
    return {"changed": before != wanted, "queue": sides["after"], "diff": sides}


def main() -> None:
    module = QuietModule(
        argument_spec={
            "base_url": {"type": "str", "default": "https://api.wandb.ai"},
            "ca_bundle": {"type": "path", "default": ""},
            "api_key": {"type": "str", "required": True, "no_log": True},
            "entity": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "resource": {"type": "str", "choices": ["kubernetes", "local-container"], "default": "kubernetes"},
            "resource_args": {"type": "dict", "default": {}},
            "template_variables": {"type": "dict", "default": {}},
            "prioritization": {"type": "str", "choices": ["DISABLED", "V0"], "default": "DISABLED"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
