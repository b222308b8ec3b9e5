#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_maintenance
short_description: Take a node out of use for work on its GPUs, and give it back as it was
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Keeps in an annotation of the node, C(gpulab.io/PURPOSE), how the node was before and what the caller has to know
    again. It is written in one step with the cordon, so that a run that is interrupted anywhere can be resumed.
  - A node that was cordoned before stays cordoned when the work has ended.
  - Pods are evicted, which respects disruption budgets. When some are left at the end of O(timeout), a node that this
    call has cordoned is uncordoned again, and the module fails.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  node:
    description: Name of the node.
    type: str
    required: true
  purpose:
    description: What the work is, as the name of the annotation.
    type: str
    default: driver-upgrade
  state:
    description:
      - V(begun) annotates, cordons, drains (O(drain)), sets O(labels), waits until the pods of O(leaving) have left.
      - V(verifying) sets the labels back, so that these pods return. The node stays cordoned.
      - V(failed) does so, too, and keeps O(failure) in the annotation.
      - V(ended) gives the node back and removes the annotation. Without one nothing is done.
    type: str
    choices: [begun, verifying, failed, ended]
    required: true
  data:
    description: What a later run has to know. What the annotation has already, it keeps.
    type: dict
    default: {}
  drain:
    description: Whether to evict the node's pods. Those of DaemonSets stay.
    type: bool
    default: false
  labels:
    description: Labels to set on the node.
    type: dict
    default: {}
  pause:
    description:
      - Labels, or how they begin, by which another places pods on the node, such as C(nvidia.com/gpu.deploy.) of the
        GPU Operator. Those that are V(true) say C(paused-for-PURPOSE) until the pods may return.
    type: list
    elements: str
    default: []
  leaving:
    description: Pods that have to leave the node, as C(NAMESPACE/APP) with the value of their label C(app).
    type: list
    elements: str
    default: []
  failure:
    description: Why it failed, with O(state=failed).
    type: str
    default: ""
  timeout:
    description: Seconds that the drain may take, and the leaving after it.
    type: float
    default: 600
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: [Whether a disruption budget would hold a pod back is not known before its eviction is tried.]
  diff_mode:
    support: none
  idempotent:
    support: full
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Empty the node
  gpulab.kubernetes.node_maintenance:
    kubeconfig: /run/user/1000/kubeconfig
    node: gpu1
    state: begun
    drain: true
    data:
      from: 580.178.04

- name: Give it back
  gpulab.kubernetes.node_maintenance:
    kubeconfig: /run/user/1000/kubeconfig
    node: gpu1
    state: ended
"""

RETURN = r"""
record:
  description: What the annotation says now; null where there is none.
  returned: success
  type: dict
  contains:
    cordoned:
      description: Whether the node was cordoned before.
      type: bool
    labels:
      description: Former values of the labels that were set, null for those that were not there.
      type: dict
    data:
      description: What the caller wants to know again.
      type: dict
    failure:
      description: Why it failed, empty if it did not.
      type: str
    policy:
      description: How new pods are kept away, always V(cordon) here.
      type: str
  sample: {cordoned: false, labels: {}, data: {from: 580.178.04}, failure: "", policy: cordon}
evicted:
  description: The pods that were evicted, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [research/train-0]
"""

from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster.api import Api
from ..module_utils._cluster.maintenance import Maintenance, Plan
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    work = Maintenance(Api(params["kubeconfig"]), params["node"], params["purpose"], module.check_mode)
    if params["state"] == "begun":
        names = ("drain", "labels", "pause", "leaving", "timeout")
        work.begin(params["data"], Plan(**{each: params[each] for each in names}))
    elif params["state"] == "verifying":
        work.let_return()
    elif params["state"] == "failed":
        work.fail(params["failure"])
    else:
        work.end()
    return {"changed": work.changed, "record": asdict(work.record) if work.record else None, "evicted": work.evicted}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "node": {"type": "str", "required": True},
            "purpose": {"type": "str", "default": "driver-upgrade"},
            "state": {"type": "str", "choices": ["begun", "verifying", "failed", "ended"], "required": True},
            "data": {"type": "dict", "default": {}},
            "drain": {"type": "bool", "default": False},
            "labels": {"type": "dict", "default": {}},
            "pause": {"type": "list", "elements": "str", "default": []},
            "leaving": {"type": "list", "elements": "str", "default": []},
            "failure": {"type": "str", "default": ""},
            "timeout": {"type": "float", "default": 600},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
