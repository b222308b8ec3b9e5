#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_maintenance
short_description: Begin and end the maintenance of a node
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Records the previous state of the node and the caller's data in the node's annotation C(gpulab.io/PURPOSE). The
    annotation is written in one step with the cordon, so that a run can be resumed at whatever point it was
    interrupted.
  - A node that was cordoned before stays cordoned after the maintenance.
  - Pods are evicted, subject to disruption budgets. If pods are still running after O(grace) and O(timeout), the module
    fails, and uncordons the node if this call has cordoned it.
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  node:
    description: Name of the node.
    type: str
    required: true
  identity:
    description:
      - Result of P(gpulab.kubernetes.node_identity#lookup) for the host of this node. If the node belongs to another
        host, the module fails and changes nothing.
      - If omitted, this is not checked.
    type: dict
  purpose:
    description: Purpose of the maintenance, which is also the name of the annotation.
    type: str
    choices: [driver-upgrade, disruption, kubernetes-upgrade]
    default: driver-upgrade
  state:
    description:
      - V(begun) annotates, cordons and drains the node (O(drain)), sets O(labels), and waits until the pods of
        O(leaving) have left.
      - V(verifying) restores the labels, so that these pods return. The node stays cordoned.
      - V(failed) also restores the labels, and stores O(failure) in the annotation.
      - V(ended) restores the previous state of the node and removes the annotation. If there is no annotation, it does
        nothing.
    type: str
    choices: [begun, verifying, failed, ended]
    required: true
  data:
    description:
      - Data for a later run, with O(purpose=driver-upgrade). Existing data in the annotation is kept.
      - Known fields are C(from) (a version), C(package) (its C(name) and C(version)), C(services) (names of systemd
        units) and C(offered) (amounts of C(nvidia.com/) resources).
    type: dict
    default: {}
  drain:
    description: Whether to evict the node's pods. Pods of DaemonSets stay.
    type: bool
    default: false
  jobs:
    description: UIDs of the pods to which O(grace) applies, as M(gpulab.kubernetes.gpu_pods_info) lists them.
    type: list
    elements: str
    default: []
  grace:
    description:
      - Time in seconds that the pods of O(jobs) have to end.
      - With O(drain), they get the annotation C(gpulab.io/disruption-deadline) with the time in UTC at which they are
        killed, and are evicted with this grace period, or with their own one if it is longer.
      - Without O(drain), the module waits until they have ended, but no longer. It does not fail if they have not.
    type: float
    default: 0
  labels:
    description: Labels to set on the node. They must begin with C(nvidia.com/) or C(gpulab.io/).
    type: dict
    default: {}
  pause:
    description:
      - Labels, or prefixes of labels, with which other software selects nodes for its pods, such as
        C(nvidia.com/gpu.deploy.) of the GPU Operator. Labels with the value V(true) are set to C(paused-for-PURPOSE)
        until these pods may return.
    type: list
    elements: str
    default: []
  leaving:
    description: Pods that must leave the node, as C(NAMESPACE/APP) with the value of their label C(app).
    type: list
    elements: str
    default: []
  failure:
    description: Reason for the failure, with O(state=failed).
    type: str
    default: ""
  timeout:
    description: Time limit in seconds for the drain, and for the pods of O(leaving).
    type: float
    default: 600
  leaves:
    description:
      - Whether the node is removed from the cluster afterwards, with O(drain).
      - Pods are then no longer waited for when the control plane has not heard of the kubelet for a while, by default
        40 seconds. They cannot end, and are removed with the node.
    type: bool
    default: false
    version_added: 0.3.0
  cautious:
    description:
      - Whether to evict no pod before each of them could be evicted, so that others do not end for nothing.
      - The API is asked for each eviction without carrying it out.
    type: bool
    default: false
    version_added: 0.3.0
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: Disruption budgets are not taken into account, because they are known only when an eviction is attempted.
  diff_mode:
    support: none
  idempotent:
    support: full
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Drain the node
  gpulab.kubernetes.node_maintenance:
    kubeconfig: /run/user/1000/kubeconfig
    node: gpu1
    state: begun
    drain: true
    data:
      from: 580.178.04

- name: End the maintenance
  gpulab.kubernetes.node_maintenance:
    kubeconfig: /run/user/1000/kubeconfig
    node: gpu1
    state: ended
"""

RETURN = r"""
blocking:
  description: The pods that prevent the drain, each with the reason.
  returned: when the node could not be drained
  type: list
  elements: str
  sample: ["team/notebook (no controller)"]
record:
  description: Contents of the annotation, or null if there is none.
  returned: success
  type: dict
  contains:
    cordoned:
      description: Whether the node was cordoned before.
      type: bool
    labels:
      description: Previous values of the labels that were set, null for labels that did not exist.
      type: dict
    data:
      description: The caller's data.
      type: dict
    failure:
      description: Reason for the failure, empty if there was none.
      type: str
    policy:
      description: How new pods are kept away from the node. Always V(cordon) for this module.
      type: str
  sample: {cordoned: false, labels: {}, data: {from: 580.178.04}, failure: "", policy: cordon}
evicted:
  description: The pods that were evicted, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [research/train-0]
jobs:
  description: The pods of O(jobs) that have not ended, by UID, each with its controller.
  returned: success
  type: dict
  sample: {0f1f2a5e-3f61-4e3e-8a51-6b0f2b1a9d10: research/train-0 (Job train)}
"""

from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster.api import Api, ApiError
from ..module_utils._cluster.maintenance import Maintenance, Plan
from ..module_utils._cluster.records import DISRUPTION, DRIVER_UPGRADE, KUBERNETES_UPGRADE
from ..module_utils._errors import DomainError
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    try:
        return _run(module)
    except ApiError as error:
        raise DomainError(
            f"{error}\nThe node {module.params['node']} may still be cordoned. When the API answers, run the playbook "
            "again: it resumes the change, or uncordons the node.",
            **error.fields,
        ) from error


def _run(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    api = Api(params["kubeconfig"])
    work = Maintenance(api, params["node"], params["purpose"], module.check_mode, params["identity"])
    for warning in work.warnings:
        module.warn(warning)
    if params["state"] == "begun":
        names = ("drain", "jobs", "grace", "labels", "pause", "leaving", "timeout", "leaves", "cautious")
        work.begin(params["data"], Plan(**{each: params[each] for each in names}))
    elif params["state"] == "verifying":
        work.let_return()
    elif params["state"] == "failed":
        work.fail(params["failure"])
    else:
        work.end()
    return {
        "changed": work.changed,
        "record": asdict(work.record) if work.record else None,
        "evicted": work.evicted,
        "jobs": work.jobs(params["jobs"]),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "node": {"type": "str", "required": True},
            "identity": {"type": "dict"},
            "purpose": {
                "type": "str",
                "choices": [DRIVER_UPGRADE, DISRUPTION, KUBERNETES_UPGRADE],
                "default": DRIVER_UPGRADE,
            },
            "state": {"type": "str", "choices": ["begun", "verifying", "failed", "ended"], "required": True},
            "data": {"type": "dict", "default": {}},
            "drain": {"type": "bool", "default": False},
            "jobs": {"type": "list", "elements": "str", "default": []},
            "grace": {"type": "float", "default": 0},
            "labels": {"type": "dict", "default": {}},
            "pause": {"type": "list", "elements": "str", "default": []},
            "leaving": {"type": "list", "elements": "str", "default": []},
            "failure": {"type": "str", "default": ""},
            "timeout": {"type": "float", "default": 600},
            "leaves": {"type": "bool", "default": False},
            "cautious": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
