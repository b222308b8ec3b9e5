#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_sharing
short_description: Set how the GPUs of a node are shared
version_added: 0.2.0
description:
  - Sets the label C(nvidia.com/device-plugin.config), which selects the configuration of the device plugin and of GPU
    feature discovery when they start.
  - With O(state=changing), it also keeps both away from the node, because a GPU in use can't be partitioned, and
    because the resources that they have reported would be wrong. With O(state=shared), they return.
  - During the change, the annotation C(gpulab.io/gpu-sharing) records the previous state of the node, so that an
    interrupted run can be resumed.
  - It does not check other pods. First make sure that no other pod uses the GPUs.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
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
  configuration:
    description: Name of the configuration, as created by P(gpulab.kubernetes.device_plugin_config#filter).
    type: str
    required: true
  amounts:
    description: Amount of each resource that the node should offer, for comparison only.
    type: dict
    default: {}
  state:
    description: V(changing) before the GPUs are changed, V(shared) when they are shared as declared.
    type: str
    choices: [changing, shared]
    default: shared
  pause:
    description:
      - Labels, or prefixes of labels, with which other software selects nodes for pods that use the GPUs, such as
        C(nvidia.com/gpu.deploy.device-plugin) of the GPU Operator.
      - Labels with the value C(true) are set to C(paused-for-gpu-sharing) until O(state=shared).
    type: list
    elements: str
    default: []
  leaving:
    description:
      - Pods that must leave the node, as C(NAMESPACE/APP) with the value of their label C(app). If empty, the module
        does not wait.
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds to wait until these pods have left the node.
    type: float
    default: 120
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - A node that does not exist yet is not an error in check mode.
  diff_mode:
    support: full
    details: [Shows the resources of the node before and after.]
  idempotent:
    support: full
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Keep the device plugin away from a node whose GPUs are about to be partitioned
  gpulab.kubernetes.gpu_sharing:
    kubeconfig: /run/user/1000/kubeconfig
    node: gpu1
    configuration: mig-mixed
    amounts:
      nvidia.com/mig-1g.5gb: 14
    state: changing
"""

RETURN = r"""
diff:
  description: Resources that the node offers, and the name of its configuration.
  returned: always
  type: dict
  contains:
    before:
      description: Before the change.
      type: str
    after:
      description: After the change, or what it would be in check mode.
      type: str
"""

from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster import nodes, sharing
from ..module_utils._cluster.api import Api
from ..module_utils._cluster.maintenance import Maintenance, Plan
from ..module_utils._cluster.records import LABEL, SHARING
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    api = Api(params["kubeconfig"])
    if module.check_mode and api.find(nodes.path(params["node"])) is None:
        return _result(params, sharing.Node(), True)
    work = Maintenance(api, params["node"], SHARING, module.check_mode, params["identity"])
    for warning in work.warnings:
        module.warn(warning)
    changing = params["state"] == "changing"
    if changing:
        names = ("pause", "leaving", "timeout")
        labels = {sharing.CHANGING_LABEL: sharing.CHANGING}
        work.begin({}, Plan(LABEL, labels=labels, **{each: params[each] for each in names}))
    else:
        work.end()
    work.change(partial(sharing.labelled, params["configuration"], changing))
    return _result(params, sharing.read(work.before), work.changed)


def _result(params: dict[str, Any], now: sharing.Node, changed: bool) -> dict[str, Any]:
    before, after = sharing.resources(now, params["amounts"])
    return {
        "changed": changed,
        "diff": {
            "before_header": f"GPUs of {params['node']}",
            "after_header": f"GPUs of {params['node']}",
            "before": f"{before}\n{now.configuration}\n",
            "after": f"{after}\n{params['configuration']}\n",
        },
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "node": {"type": "str", "required": True},
            "identity": {"type": "dict"},
            "configuration": {"type": "str", "required": True},
            "amounts": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": ["changing", "shared"], "default": "shared"},
            "pause": {"type": "list", "elements": "str", "default": []},
            "leaving": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "float", "default": 120},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
