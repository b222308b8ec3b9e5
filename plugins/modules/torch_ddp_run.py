#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: torch_ddp_run
short_description: Run a distributed training as a job of the cluster, from its start to its end
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Makes an Indexed Job with its Service and ConfigMap, shows the log of its first pod while it waits, collects the
    summary, and removes all of it, after a failure and an interruption, too.
  - What an interrupted run of the same name left is removed first. A job that somebody else made is never touched.
  - Fails with the reason and the last lines of the pod to blame.
  - An action plugin of the same name drives it; it calls the module step by step.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  namespace:
    description: Namespace of the job, which must exist.
    type: str
    default: default
  name:
    description: Name of the job, its Service and its ConfigMap.
    type: str
    required: true
  job:
    description: The Job, as the API takes it. Needed to start it.
    type: dict
  objects:
    description: What the Job needs, a Service and a ConfigMap of its name, as the API takes them.
    type: list
    elements: dict
    default: []
  nodes:
    description: How many nodes take part, one pod each.
    type: int
    required: true
  gpus:
    description: How many C(nvidia.com/gpu) each pod asks for.
    type: int
    default: 0
  node_selector:
    description: Labels of the nodes that may take part.
    type: dict
    default: {}
  timeout:
    description: How long the training may take, in seconds.
    type: int
    default: 86400
  schedule_timeout:
    description: How long to wait for nodes with enough free GPUs, in seconds.
    type: int
    default: 60
  step:
    description: What to do now. The action plugin goes through all of them; a playbook has no need to set it.
    type: str
    choices: [start, watch, last_words, remove]
    default: start
  since:
    description: What the last V(watch) returned as C(since).
    type: dict
    default: {}
  slice:
    description: How long one V(watch) looks for news, in seconds.
    type: int
    default: 10
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - In check mode it only says that it would train.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each run is a new job. Whether it begins anew or goes on from checkpoints is for the script.
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Train
  gpulab.kubernetes.torch_ddp_run:
    kubeconfig: /run/user/1000/kubeconfig
    name: train
    nodes: 2
    gpus: 4
    job: "{{ lookup('ansible.builtin.template', 'job.yml') | from_yaml }}"
    objects: "{{ lookup('ansible.builtin.template', 'objects.yml') | from_yaml_all | list }}"
"""

RETURN = r"""
summary:
  description:
    - What the script printed after C(TORCH_DDP_SUMMARY) as JSON, in the log of the first pod; empty when it did not.
  returned: success
  type: dict
  sample: {"processes": 4, "samples_per_s": 17212.2, "ranks_equal": true}
seconds:
  description: How long it took, from the making of the job to its end.
  returned: success
  type: float
  sample: 43.1
reason:
  description: Why the training failed, without the last lines.
  returned: failure
  type: str
  sample: "pod train-1 on node gpu2: out of memory (OOMKilled), its limit is 16Gi (torch_ddp_resources)"
last_words:
  description: The last lines of the pod to blame.
  returned: failure
  type: list
  elements: str
  sample: ["ValueError: nothing to learn"]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster.api import Api
from ..module_utils._module import run
from ..module_utils._training.judge import Wanted
from ..module_utils._training.run import Training


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    wanted = Wanted(params["nodes"], params["gpus"], params["node_selector"])
    if module.check_mode:
        return {"changed": True}
    training = Training(Api(params["kubeconfig"]), params["namespace"], params["name"], wanted)
    if params["step"] == "start":
        training.start(params["job"], params["objects"])
        result = {}
    elif params["step"] == "watch":
        result = training.watch(params["since"], params["slice"], params["schedule_timeout"])
    elif params["step"] == "last_words":
        result = {"lines": training.last_words()}
    else:
        result = {"removed": training.remove()}
    return {"changed": params["step"] in ("start", "remove"), **result}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "name": {"type": "str", "required": True},
            "job": {"type": "dict"},
            "objects": {"type": "list", "elements": "dict", "default": []},
            "nodes": {"type": "int", "required": True},
            "gpus": {"type": "int", "default": 0},
            "node_selector": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 86400},
            "schedule_timeout": {"type": "int", "default": 60},
            "step": {"type": "str", "choices": ["start", "watch", "last_words", "remove"], "default": "start"},
            "since": {"type": "dict", "default": {}},
            "slice": {"type": "int", "default": 10},
        },
        required_if=[("step", "start", ["job"])],
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
