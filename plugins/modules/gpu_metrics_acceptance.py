#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_metrics_acceptance
short_description: Verify that the DCGM exporter of each node has metrics of each GPU of its host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the metrics of each exporter through the API server, and compares the GPUs that they name with those of the
    host.
  - A GPU that has no metric other than its last Xid is missing. The module waits for it, and fails if the same GPUs are
    missing for 20 seconds.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  namespace:
    description: Namespace of the exporter.
    type: str
    required: true
  hosts:
    description: The hosts, with the GPUs that they should have. Those without GPUs are ignored.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      gpus:
        description: GPUs that the driver reports, as in RV(gpulab.kubernetes.nvidia_smi_info#module:gpus).
        type: list
        elements: dict
        default: []
      pci:
        description: Addresses of the GPUs on the PCI bus.
        type: list
        elements: str
        default: []
      expected:
        description: Number of GPUs. By default each GPU on the PCI bus counts.
        type: int
      complaint:
        description: What the driver says if it does not report all GPUs.
        type: str
        default: ""
  timeout:
    description: Time limit in seconds.
    type: int
    default: 60
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.reader
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Verify the metrics of a host with one GPU
  gpulab.kubernetes.gpu_metrics_acceptance:
    kubeconfig: /run/user/1000/kubeconfig
    namespace: dcgm-exporter
    hosts:
      - name: gpu1
        pci: ["0000:3b:00.0"]
"""

RETURN = r"""
summary:
  description: One line for each host with GPUs.
  returned: success
  type: list
  elements: str
  sample: ["gpu1: metrics of 4 GPUs"]
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster import objects
from ..module_utils._cluster.api import Api, ApiError
from ..module_utils._cluster.dcgm_exporter import APP, PORT, gpus_of, unmeasured
from ..module_utils._cluster.waiting import StuckFor, until
from ..module_utils._errors import DomainError
from ..module_utils._module import run

_STUCK = 20.0


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    api, namespace = Api(params["kubeconfig"]), params["namespace"]
    hosts = {entry["name"]: gpus for entry in params["hosts"] for gpus in [gpus_of(entry)] if gpus}
    stuck = StuckFor(_STUCK)

    def look() -> list[str]:
        pods = api.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"app={APP}")
        exporters = {objects.node_of(pod): objects.name(pod) for pod in pods if objects.is_ready(pod)}
        found = []
        for node, gpus in hosts.items():
            pod = exporters.get(node)
            if not pod:
                found.append(f"{node}: no exporter is ready there")
                continue
            try:
                text = api.text(f"/api/v1/namespaces/{namespace}/pods/{pod}:{PORT}/proxy/metrics")
            except ApiError as error:
                found.append(f"{node}: its exporter {pod} does not answer: {error}")
                continue
            found += [
                f"{node}: its exporter {pod} has no metrics of {gpu}"
                + (f". The driver says: {gpu.complaint}" if gpu.complaint else "")
                for gpu in unmeasured(gpus, text)
            ]
        return found

    found = until(look, lambda found: not found or stuck.exceeded(found, time.monotonic()), params["timeout"])
    if found:
        raise DomainError(
            "Error while verifying the metrics of the GPUs:\n"
            + "".join(f"- {line}\n" for line in found)
            + "If the driver reports a problem, ansible-playbook gpulab.kubernetes.verify -i INVENTORY says how to fix "
            f"it. Otherwise read the exporter's log: kubectl logs --namespace {namespace} POD"
        )
    return {"summary": [f"{node}: metrics of {len(gpus)} GPUs" for node, gpus in hosts.items()]}


def main() -> None:
    host: dict[str, Any] = {
        "name": {"type": "str", "required": True},
        "gpus": {"type": "list", "elements": "dict", "default": []},
        "pci": {"type": "list", "elements": "str", "default": []},
        "expected": {"type": "int"},
        "complaint": {"type": "str", "default": ""},
    }
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "namespace": {"type": "str", "required": True},
            "hosts": {"type": "list", "elements": "dict", "required": True, "options": host},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
