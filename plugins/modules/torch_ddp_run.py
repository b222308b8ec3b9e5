#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: torch_ddp_run
short_description: Run a distributed training as a job in the cluster
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates an Indexed Job with its Service, its ConfigMap, and a Secret with a random C(word), shows the log of the
    first pod while the training runs, collects the summary, and removes these objects, even after a failure or an
    interruption.
  - Removes leftovers of an interrupted run with the same name first. A job that it did not create is never changed.
  - On failure, it reports the reason and the last lines of the failed pod's log.
  - An action plugin of the same name calls the module step by step.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  namespace:
    description: Namespace of the job. It must exist.
    type: str
    default: default
  name:
    description: Name of the job, its Service, its ConfigMap and its Secret.
    type: str
    required: true
  job:
    description: Manifest of the Job. Required to start the job.
    type: dict
  objects:
    description: Manifests of the Service and the ConfigMap of the Job, with the same name.
    type: list
    elements: dict
    default: []
  images:
    description:
      - Images for the Job, which replace the one in O(job). The first that has kernels for the GPUs of all nodes on
        which pods can run is used. If there is none, the module fails before it changes anything. Known are the images
        of C(pytorch/pytorch); others are not judged.
      - If empty, the image in O(job) is used.
    type: list
    elements: str
    default: []
  nodes:
    description: Number of nodes that take part, with one pod each.
    type: int
    required: true
  gpus:
    description: Number of C(nvidia.com/gpu) that each pod requests.
    type: int
    default: 0
  node_selector:
    description: Node selector of the pods.
    type: dict
    default: {}
  timeout:
    description: Time limit in seconds for the training.
    type: int
    default: 86400
  schedule_timeout:
    description: Seconds to wait for nodes with enough free GPUs.
    type: int
    default: 60
  step:
    description: Current step. The action plugin sets it; don't set it in a playbook.
    type: str
    choices: [start, watch, last_words, remove]
    default: start
  since:
    description: Value of C(since) that the last V(watch) returned.
    type: dict
    default: {}
  slice:
    description: Duration of one V(watch) in seconds.
    type: int
    default: 30
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - Check mode only reports that it would train.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each run is a new job. Whether it resumes from checkpoints depends on the script.
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Run a training
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
    - JSON that the script printed after C(TORCH_DDP_SUMMARY) in the log of the first pod, empty if there is none.
  returned: success
  type: dict
  sample: {"processes": 4, "samples_per_s": 17212.2, "ranks_equal": true}
seconds:
  description: Time in seconds from the creation of the job to its end.
  returned: success
  type: float
  sample: 43.1
reason:
  description: Reason why the training failed, without the last lines of the log.
  returned: failure
  type: str
  sample: "pod train-1 on node gpu2: out of memory (OOMKilled), its limit is 16Gi (torch_ddp_resources)"
last_words:
  description: Last lines of the failed pod's log.
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
        training.start(params["job"], params["objects"], params["images"])
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
            "images": {"type": "list", "elements": "str", "default": []},
            "nodes": {"type": "int", "required": True},
            "gpus": {"type": "int", "default": 0},
            "node_selector": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 86400},
            "schedule_timeout": {"type": "int", "default": 60},
            "step": {"type": "str", "choices": ["start", "watch", "last_words", "remove"], "default": "start"},
            "since": {"type": "dict", "default": {}},
            "slice": {"type": "int", "default": 30},
        },
        required_if=[("step", "start", ["job"])],
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
