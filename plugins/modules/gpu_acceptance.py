#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_acceptance
short_description: Verify that pods can use every GPU of the given hosts
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Runs one pod per free GPU, all at the same time. Each pod runs the check of O(image), reports its GPU, and keeps the
    GPU until all pods have reported. The reported GPUs are compared with those of the hosts.
  - On each host with GPUs, a pod that requests no GPUs but sets C(NVIDIA_VISIBLE_DEVICES=all) must not see any.
  - On each host, a pod connects to pods on other nodes, to a Service by address, and to the same Service by name.
  - GPUs that other pods use are reported as in use. No pod is evicted.
  - The result is stored in the namespace C(kube-system), in a ConfigMap C(gpulab-acceptance.NODE) for each node, which
    is deleted with the node, and in C(gpulab-acceptance-network). The next run reuses it and creates no pods, unless
    the node was rebooted, or its GPUs, its versions, O(nodes[].containerd) or its allocatable resources have changed.
    If the result can't be stored, the module warns, and the next run verifies again.
  - If a host has fewer GPUs than at an earlier verification, the module warns in each run, until O(nodes[].expected) is
    the number of GPUs that the host has.
  - Problems are returned in RV(report). They do not make the module fail. If it fails, it could not
    verify the GPUs.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  nodes:
    description: Hosts to verify, with their own data.
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
            and C(mig) are used; an entry without a UUID is a GPU that does not respond.
        type: list
        elements: dict
        default: []
      pci:
        description: Number of GPUs on the PCI bus.
        type: int
        default: 0
      expected:
        description: Expected number of GPUs. If unset, the number that nvidia-smi or the PCI bus shows is used.
        type: int
      state:
        description:
          - State as returned by M(gpulab.kubernetes.nvidia_smi_info). V(ok) means that there is no problem.
          - V(silent) means that the host could not be read, which is itself a problem.
        type: str
        default: ok
      complaint:
        description: Problem, if O(nodes[].state) is not V(ok).
        type: str
        default: ""
      advice:
        description: How to fix O(nodes[].complaint), as returned by M(gpulab.kubernetes.nvidia_smi_info).
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
        description: Pod that uses each GPU, as a mapping from UUID to C(namespace/name).
        type: dict
        default: {}
      sharing:
        description:
          - How pods share the GPUs, as returned by P(gpulab.kubernetes.gpu_sharing#filter). Empty means that each pod
            gets whole GPUs.
          - If several pods share a GPU, all of them run at the same time. If GPUs are partitioned, each MIG device is
            verified.
          - A value of the key C(complaint) is reported as a problem with the host.
        type: dict
        default: {}
        version_added: 0.2.0
      own_plugin:
        description:
          - Whether the device plugin of this collection offers the GPUs. Otherwise, labels of GPU feature discovery are
            not required, and a pod that sees GPUs without requesting any is reported, but not as a problem.
        type: bool
        default: true
        version_added: 0.2.0
      containerd:
        description:
          - Summary of containerd's configuration, as returned by P(gpulab.kubernetes.containerd_state#filter).
          - Each conflict with the level V(problem) is reported as a problem with the host.
        type: dict
        default: {}
        version_added: 0.2.0
  image:
    description:
      - Image that checks a GPU. Its command must exit with 0 if the GPU can compute. The image must contain C(/bin/sh)
        and C(sleep).
      - If its output contains C([simulated]), the report marks the verification as simulated.
    type: str
    required: true
  network_image:
    description: Image of the Kubernetes test server agnhost.
    type: str
    required: true
  namespace:
    description: Namespace of the pods. It is created for the verification and removed afterwards.
    type: str
    default: gpulab-acceptance
  holder:
    description:
      - Name of this run. A run that finds O(namespace) in use by a live run waits up to a minute and then fails with
        the name of the other run. If empty, the user and host on which the module runs.
    type: str
    default: ""
    version_added: 0.2.0
  plugin_namespace:
    description: Namespace of the device plugin, whose log may show why GPUs are not offered.
    type: str
    default: nvidia-device-plugin
  tolerations:
    description:
      - Tolerations of the pods for which RV(free_gpus) is counted. The pods of the verification tolerate all taints.
    type: list
    elements: dict
    default: []
    version_added: 0.2.0
  force:
    description: Verify everything again instead of reusing earlier results.
    type: bool
    default: false
  verify:
    description:
      - Whether to run pods for everything that has no earlier result.
      - With V(false), no pods are run. Free GPUs without an earlier result are C(unproven) in RV(report).
    type: bool
    default: true
    version_added: 0.2.0
  timeout:
    description:
      - Seconds to wait until all pods have reported.
      - With V(0), it is 300 seconds and one more for each 4 pods that request a GPU.
    type: int
    default: 0
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - No pods are created in check mode. The result shows whether there is anything to verify.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - With O(force=true) it verifies again in each run and reports a change.
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
    - Report, as written by the role C(acceptance). Empty in check mode if there is something to verify.
    - RV(report.problems) is empty if everything is verified.
  returned: success
  type: dict
  contains:
    generated:
      description: Time of the report in UTC.
      type: str
    cluster:
      description: Version and address of the API, as C(kubernetes_version) and C(endpoint).
      type: dict
    hosts:
      description: Versions, GPUs, labels, containerd configuration, isolation and problems of each node.
      type: dict
    network:
      description: Results of the network checks, as C(pod_to_pod), C(service) and C(dns).
      type: dict
    isolation:
      description: For each node, whether a pod that requests no GPUs sees none.
      type: dict
    totals:
      description: Numbers of all GPUs, of verified GPUs and of GPUs in use, as C(gpus), C(proven) and C(in_use).
      type: dict
    checks:
      description: Output that all checks have in common.
      type: list
      elements: str
    simulated:
      description: Whether a check reported that it is simulated.
      type: bool
    kept:
      description: Whether all results are from an earlier verification that is still valid.
      type: bool
    problems:
      description:
        - All problems.
        - A problem that was stored by an earlier version has only C(host), C(gpu) and C(cause).
      type: list
      elements: dict
      contains:
        kind:
          description: Identifier of the problem, such as V(gpu_not_visible). It is stable across versions.
          type: str
        host:
          description: Name of the node.
          type: str
        gpu:
          description: UUID of the GPU, empty if the problem does not concern a single GPU.
          type: str
        cause:
          description: Cause of the problem.
          type: str
        where:
          description: Variable, file or resource to look at, if any.
          type: str
        why:
          description: Why it matters. May be empty.
          type: str
        do:
          description: How to fix it.
          type: str
    warnings:
      description: GPUs that a host had at an earlier verification, in the same form as RV(report.problems).
      type: list
      elements: dict
  sample:
    generated: "2026-11-21T04:00:00Z"
    totals: {gpus: 1, proven: 1, in_use: 0}
    kept: false
    problems: []
inconclusive:
  description:
    - Whether the GPUs could not be verified, for example because the API did not answer (the module fails), or because
      RV(problems) have other causes, such as the cluster's DNS. Nothing shows that a GPU or its driver is faulty.
  returned: always
  type: bool
  sample: false
  version_added: 0.2.0
free_gpus:
  description:
    - For each node with free GPUs, how many C(nvidia.com/gpu) a new pod can be given. Nodes that are not ready, are
      cordoned, or have a taint that O(tolerations) don't tolerate are left out.
    - If pods share GPUs or the GPUs are partitioned, it is 1, because a pod has no use for two shares.
  returned: success
  type: dict
  sample: {gpu1: 4}
  version_added: 0.2.0
kept:
  description: Whether all results are from an earlier verification that is still valid.
  returned: success
  type: bool
  sample: false
summary:
  description: Summary of the report as text.
  returned: success
  type: list
  elements: str
  sample: ["1 of 1 GPUs verified on 1 host"]
problems:
  description: All problems as text, one line each with host, GPU and cause.
  returned: success
  type: list
  elements: str
  sample: []
remedies:
  description: How to fix RV(problems), without duplicates.
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
from ..module_utils._acceptance.problems import inconclusive
from ..module_utils._acceptance.session import Session
from ..module_utils._acceptance.summary import problems, remedies, summary, warnings
from ..module_utils._cluster.api import Api
from ..module_utils._errors import DomainError
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
    "own_plugin": {"type": "bool", "default": True},
}


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    names = ("namespace", "image", "network_image", "timeout", "holder", "plugin_namespace", "tolerations")
    settings = Settings(**{name: params[name] for name in names})
    try:
        session = Session(Api(params["kubeconfig"]), settings, read_hosts(params["nodes"]))
        if params["verify"]:
            changed, report = session.accept(params["force"], module.check_mode)
        else:
            changed, report = False, session.look()
    except DomainError as error:
        # Failures of GPUs are problems in the report, so this error is inconclusive.
        error.fields["inconclusive"] = True
        raise
    for warning in [*session.warnings, *(warnings(report) if report else [])]:
        module.warn(warning)
    return {
        "changed": changed,
        "report": report,
        "inconclusive": bool(report) and inconclusive(report["problems"]),
        "free_gpus": session.free_gpus,
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
            "holder": {"type": "str", "default": ""},
            "plugin_namespace": {"type": "str", "default": "nvidia-device-plugin"},
            "tolerations": {"type": "list", "elements": "dict", "default": []},
            "force": {"type": "bool", "default": False},
            "verify": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
