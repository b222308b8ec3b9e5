#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: claim_acceptance
short_description: Verify with pods that data written to a claim on one node can be read on other nodes
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - A pod on the first node writes random data to the claim and flushes it. Then a pod on each other node reads the data
    and compares the checksum. The throughput of each pod is measured.
  - With O(storage_class) each node gets its own claim of that class, to which one pod writes and from which another
    reads.
  - The pods, their data and the claims of the verification are removed afterwards, even after a failure.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  nodes:
    description: Names of the nodes. If there is only one, another pod on the same node reads the data.
    type: list
    elements: str
    required: true
  namespace:
    description: Namespace of the claim. It must exist.
    type: str
    default: default
  claim:
    description: Name of the claim.
    type: str
  storage_class:
    description: Name of a StorageClass to verify instead of a claim.
    type: str
  image:
    description: Image of the pods. It must contain a shell, C(dd) and C(sha256sum).
    type: str
    required: true
  size_mib:
    description: Amount of data to write and read, in MiB. The writing pod keeps it in memory.
    type: int
    default: 64
  timeout:
    description: Time limit in seconds for the verification.
    type: int
    default: 120
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - Nothing is verified in check mode.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - It verifies in each run. Nothing is left behind, so it never reports a change.
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Verify that two nodes share a claim
  gpulab.kubernetes.claim_acceptance:
    kubeconfig: /run/user/1000/kubeconfig
    claim: datasets
    nodes: [gpu1, gpu2]
    image: registry.k8s.io/e2e-test-images/agnhost:2.63.0
"""

RETURN = r"""
results:
  description: Measurements of each claim, empty in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    claim:
      description: Name of the claim.
      type: str
    writer:
      description: Node of the pod that wrote the data.
      type: str
    write_mib_per_s:
      description: Throughput of writing and flushing in MiB/s.
      type: float
    readers:
      description: Read throughput on each node in MiB/s; null on the node that wrote the data, which has it in memory.
      type: dict
  sample:
    - {claim: datasets, writer: gpu1, write_mib_per_s: 412.9, readers: {gpu2: 853.3}}
summary:
  description: The results as text.
  returned: success
  type: list
  elements: str
  sample: ["a pod on gpu1 wrote 64 MiB at 412.9 MiB/s", "a pod on gpu2 read them at 853.3 MiB/s"]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster.api import Api
from ..module_utils._module import run
from ..module_utils._storage.check import Check
from ..module_utils._storage.pods import Settings, summary, trips


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    if module.check_mode or not params["nodes"]:
        return {"results": [], "summary": []}
    settings = Settings(params["namespace"], params["image"], params["size_mib"], params["timeout"])
    wanted = trips(params["nodes"], params["claim"] or "", params["storage_class"] or "")
    results = Check(Api(params["kubeconfig"]), settings).verify(wanted, params["storage_class"] or "")
    return {"results": results, "summary": summary(results, settings.size_mib)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "nodes": {"type": "list", "elements": "str", "required": True},
            "namespace": {"type": "str", "default": "default"},
            "claim": {"type": "str"},
            "storage_class": {"type": "str"},
            "image": {"type": "str", "required": True},
            "size_mib": {"type": "int", "default": 64},
            "timeout": {"type": "int", "default": 120},
        },
        mutually_exclusive=[("claim", "storage_class")],
        required_one_of=[("claim", "storage_class")],
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
