#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_acceptance
short_description: Verify that pods reach every GPU of these hosts
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Runs one pod for each free GPU, all at the same time. Each runs the check of O(image), tells which GPU it was given,
    and holds it until all have told theirs. The set of these GPUs is compared with what the hosts have.
  - On each host with GPUs, a pod that asks for none, but sets C(NVIDIA_VISIBLE_DEVICES=all), must see none.
  - On each host, a pod dials others across nodes, a Service by its address, and the same Service by its name.
  - GPUs that pods of others hold count as in use. No pod is evicted.
  - The verification is remembered in the ConfigMap C(kube-system/gpulab-acceptance). As long as neither the node since
    its last boot, its GPUs, its versions, O(nodes[].containerd), nor what is allocatable has changed, the next run
    keeps it and makes no pod.
  - What is wrong is returned in RV(report), and is no failure of the module itself.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  nodes:
    description: The hosts to verify, and what each says about itself.
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
          - The GPUs that nvidia-smi sees, as M(gpulab.kubernetes.nvidia_smi_info) returns them. Only C(uuid), C(name)
            and C(mig) are used; an entry without a UUID is a GPU that does not answer.
        type: list
        elements: dict
        default: []
      pci:
        description: How many GPUs are on the PCI bus.
        type: int
        default: 0
      expected:
        description: How many GPUs there should be. Not set means as many as nvidia-smi or the PCI bus have.
        type: int
      state:
        description:
          - State that M(gpulab.kubernetes.nvidia_smi_info) returned; V(ok) is the good one.
          - V(silent) stands for a host that could not be asked, which is a problem in itself.
        type: str
        default: ok
      complaint:
        description: What is wrong when O(nodes[].state) is not V(ok).
        type: str
        default: ""
      advice:
        description: What to do about O(nodes[].complaint), as M(gpulab.kubernetes.nvidia_smi_info) returns it.
        type: str
        default: ""
        version_added: 0.2.0
      driver:
        description: Version of the driver.
        type: str
        default: ""
      toolkit:
        description: Version of the NVIDIA container toolkit.
        type: str
        default: ""
      held:
        description: UUID of a GPU -> the pod that holds it, as C(namespace/name).
        type: dict
        default: {}
      sharing:
        description:
          - How pods share the GPUs, as P(gpulab.kubernetes.gpu_sharing#filter) tells it. Empty means a whole GPU each.
          - Where several pods share a GPU, all of them run at the same time. Where GPUs are cut, each part is proven.
          - A key C(complaint) is a problem of the host.
        type: dict
        default: {}
        version_added: 0.2.0
      containerd:
        description:
          - What containerd's configuration says, as P(gpulab.kubernetes.containerd_state#filter) returns it.
          - Each conflict of the level V(problem) is a problem of the host.
        type: dict
        default: {}
        version_added: 0.2.0
  image:
    description:
      - Image of the check. Its own command has to exit with 0 if a GPU computes; C(/bin/sh) and C(sleep) are needed.
      - If its output holds C([simulated]), the report says that the verification is simulated.
    type: str
    required: true
  network_image:
    description: Image of Kubernetes' test server agnhost.
    type: str
    required: true
  namespace:
    description: Namespace for the pods. It is made for the verification and removed afterwards.
    type: str
    default: gpulab-acceptance
  force:
    description: Verify everything afresh, whatever an earlier verification covers.
    type: bool
    default: false
  verify:
    description:
      - Whether to run pods for what no earlier verification covers.
      - With V(false) it only looks. GPUs that nobody holds and no verification covers are C(unproven) in RV(report).
    type: bool
    default: true
    version_added: 0.2.0
  timeout:
    description: How long the pods may take until all have reported, in seconds.
    type: int
    default: 300
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - In check mode it makes no pod. It says whether there is anything to verify.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - With O(force=true) it verifies again each time, and says so.
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Verify the GPUs of two hosts
  gpulab.kubernetes.gpu_acceptance:
    kubeconfig: /run/user/1000/kubeconfig
    image: nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0
    network_image: registry.k8s.io/e2e-test-images/agnhost:2.63.0
    nodes:
      - name: gpu1
        pci: 1
        driver: 580.178.04
        gpus:
          - uuid: GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11
            name: Tesla T4
"""

RETURN = r"""
report:
  description:
    - The report, as the role C(acceptance) writes it. Empty in check mode when there is something to verify.
    - RV(report.problems) is empty when everything is proven.
  returned: success
  type: dict
  contains:
    generated:
      description: When the report was made, in UTC.
      type: str
    cluster:
      description: Version and address of the API, as C(kubernetes_version) and C(endpoint).
      type: dict
    hosts:
      description: Node -> its versions, GPUs, labels, containerd's configuration, isolation and problems.
      type: dict
    network:
      description: What pods reach, as C(pod_to_pod), C(service) and C(dns).
      type: dict
    isolation:
      description: Node -> whether a pod that asks for no GPU sees none.
      type: dict
    totals:
      description: How many GPUs there are, are proven and in use, as C(gpus), C(proven) and C(in_use).
      type: dict
    checks:
      description: What all checks said alike.
      type: list
      elements: str
    simulated:
      description: Whether a check said that it is simulated.
      type: bool
    kept:
      description: Whether all of it is an earlier verification that still holds.
      type: bool
    problems:
      description:
        - Everything that is wrong.
        - A problem that an earlier version remembered has C(host), C(gpu) and C(cause) alone.
      type: list
      elements: dict
      contains:
        kind:
          description: Identifier of the problem, such as V(gpu_not_visible). It stays when words change.
          type: str
        host:
          description: Name of the node.
          type: str
        gpu:
          description: UUID of the GPU, empty where it is about no single one.
          type: str
        cause:
          description: What is wrong.
          type: str
        where:
          description: The variable, file or resource to look at, empty where there is none to name.
          type: str
        why:
          description: Why it matters, empty where that needs no words.
          type: str
        do:
          description: What to do.
          type: str
  sample:
    generated: "2026-11-21T04:00:00Z"
    totals: {gpus: 1, proven: 1, in_use: 0}
    kept: false
    problems: []
kept:
  description: Whether all of it is an earlier verification that still holds.
  returned: success
  type: bool
  sample: false
summary:
  description: The report in a few lines for a person.
  returned: success
  type: list
  elements: str
  sample: ["1 of 1 GPUs proven on 1 host"]
problems:
  description: Everything that is wrong, as a line each with host, GPU and cause.
  returned: success
  type: list
  elements: str
  sample: []
remedies:
  description: What to do about RV(problems), each once.
  returned: success
  type: list
  elements: str
  sample: []
  version_added: 0.2.0
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._acceptance.hosts import read_hosts
from ..module_utils._acceptance.pods import Settings
from ..module_utils._acceptance.session import Session
from ..module_utils._acceptance.summary import problems, remedies, summary
from ..module_utils._cluster.api import Api
from ..module_utils._module import run

_NODE = {
    "name": {"type": "str", "required": True},
    "gpus": {"type": "list", "elements": "dict", "default": []},
    "pci": {"type": "int", "default": 0},
    "expected": {"type": "int"},
    "state": {"type": "str", "default": "ok"},
    "complaint": {"type": "str", "default": ""},
    "advice": {"type": "str", "default": ""},
    "driver": {"type": "str", "default": ""},
    "toolkit": {"type": "str", "default": ""},
    "held": {"type": "dict", "default": {}},
    "containerd": {"type": "dict", "default": {}},
    "sharing": {"type": "dict", "default": {}},
}


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    settings = Settings(params["namespace"], params["image"], params["network_image"], params["timeout"])
    session = Session(Api(params["kubeconfig"]), settings, read_hosts(params["nodes"]))
    if params["verify"]:
        changed, report = session.accept(params["force"], module.check_mode)
    else:
        changed, report = False, session.look()
    return {
        "changed": changed,
        "report": report,
        "kept": bool(report) and report["kept"],
        "summary": summary(report) if report else [],
        "problems": problems(report) if report else [],
        "remedies": remedies(report) if report else [],
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "nodes": {"type": "list", "elements": "dict", "options": _NODE, "required": True},
            "image": {"type": "str", "required": True},
            "network_image": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "gpulab-acceptance"},
            "force": {"type": "bool", "default": False},
            "verify": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
