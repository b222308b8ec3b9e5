#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_benchmark
short_description: Measure how fast each free GPU of the given hosts is
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Runs one pod per free GPU. The pods of one node run one after another, and each one keeps its GPU until the last one
    has reported, so that each GPU is measured once. Nodes are measured at the same time.
  - GPUs that pods use, partitioned and shared GPUs, and GPUs of nodes that are cordoned, isolated or not ready are left
    out, and named with the reason.
  - GPUs of the same name and memory are compared. A GPU that is slower than 90 % of the median of the others is a
    warning with the likely cause. If there are only two, both are named if they differ by more than 10 %.
  - Warnings and pods that could not measure do not make the module fail. If the API fails for a minute, the open pods
    are failures. If the namespace can't be removed, the module warns, and the next run removes it.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  nodes:
    description: Hosts to measure, with their own data.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      gpus:
        description:
          - The GPUs that nvidia-smi sees, as M(gpulab.kubernetes.nvidia_smi_info) returns them. Only C(uuid), C(index),
            C(name), C(memory_total_mib) and C(mig) are used.
        type: list
        elements: dict
        default: []
      pci:
        description: Number of GPUs on the PCI bus.
        type: int
        default: 0
      held:
        description: Pod that uses each GPU, as a mapping from UUID to C(namespace/name).
        type: dict
        default: {}
      complaint:
        description: What the driver says if it reports no GPU.
        type: str
        default: ""
  images:
    description:
      - Images with PyTorch 1.13 or newer and Python 3.8 or newer. A PyTorch without CUDA measures the CPU.
      - Each node is measured with the first that has kernels for its GPUs. If there is none, its GPUs are left out.
        Only images of C(pytorch/pytorch) are judged.
    type: list
    elements: str
    required: true
  python:
    description: Python interpreter in the image that has PyTorch.
    type: str
    default: python3
  script:
    description: Content of the script that measures.
    type: str
    required: true
  namespace:
    description:
      - Namespace of the pods, a DNS label. It is created for the benchmark and removed afterwards.
      - An existing namespace is an error, unless an interrupted run of this module left it.
    type: str
    default: gpulab-gpu-benchmark
  holder:
    description:
      - Name of this run. A run that finds O(namespace) in use by a live run waits up to a minute and then fails with
        the name of the other run. If empty, the user and host on which the module runs.
    type: str
    default: ""
    version_added: 0.2.0
  timeout:
    description: Seconds that each pod may take from its creation to its report, 90 to 86400.
    type: int
    default: 900
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - No pods are created in check mode. RV(summary) lists what would be measured.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each run measures again and reports a change, unless there is no GPU to measure.
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Measure the GPU of a host
  gpulab.kubernetes.gpu_benchmark:
    kubeconfig: /run/user/1000/kubeconfig
    images:
      - docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime
      - docker.io/pytorch/pytorch:2.9.1-cuda12.6-cudnn9-runtime
    script: "{{ lookup('ansible.builtin.file', 'measure.py') }}"
    nodes:
      - name: gpu1
        gpus:
          - uuid: GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11
            index: 0
            name: Tesla T4
            memory_total_mib: 15360
"""

RETURN = r"""
result:
  description: Result of the benchmark, as described in the README of the role C(gpu_benchmark). Empty in check mode.
  returned: success
  type: dict
  sample:
    measured: "2026-11-21T04:00:00Z"
    nodes: [gpu1]
    gpus: []
    left_out: []
    failures: []
    warnings: []
summary:
  description: The result as text, or in check mode what would be measured.
  returned: success
  type: list
  elements: str
  sample: ["Would measure 1 of 1 free GPUs on gpu1"]
"""

from datetime import datetime, timezone
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._benchmark.pods import Settings, check_settings
from ..module_utils._benchmark.result import describe_plan, result, summary
from ..module_utils._benchmark.run import Benchmark
from ..module_utils._benchmark.targets import plan
from ..module_utils._cluster.api import Api
from ..module_utils._cluster.dra import read_claims
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    settings = Settings(**{name: params[name] for name in ("namespace", "python", "script", "timeout", "holder")})
    check_settings(settings)
    api = Api(params["kubeconfig"])
    nodes, pods = api.items("/api/v1/nodes"), api.items("/api/v1/pods")
    claims = read_claims(api, pods)
    places, left_out = plan(params["nodes"], nodes, pods, claims, settings.namespace, params["images"])
    if module.check_mode:
        return {"changed": bool(places), "result": {}, "summary": describe_plan(places, left_out)}
    benchmark = Benchmark(api, settings)
    if places:
        left_out += benchmark.measure(places)
    for warning in benchmark.warnings:
        module.warn(warning)
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    hosts = [host["name"] for host in params["nodes"]]
    found = result(benchmark.measurements, benchmark.failures, left_out, hosts, now)
    return {"changed": bool(places), "result": found, "summary": summary(found)}


def main() -> None:
    host: dict[str, Any] = {
        "name": {"type": "str", "required": True},
        "gpus": {"type": "list", "elements": "dict", "default": []},
        "pci": {"type": "int", "default": 0},
        "held": {"type": "dict", "default": {}},
        "complaint": {"type": "str", "default": ""},
    }
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "nodes": {"type": "list", "elements": "dict", "required": True, "options": host},
            "images": {"type": "list", "elements": "str", "required": True},
            "python": {"type": "str", "default": "python3"},
            "script": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "gpulab-gpu-benchmark"},
            "holder": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 900},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
