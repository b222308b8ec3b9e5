#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_sharing
short_description: Say on a node how its GPUs are shared
version_added: 0.2.0
description:
  - Sets the label C(nvidia.com/device-plugin.config), by which the device plugin and GPU feature discovery choose their
    configuration when they start.
  - With O(state=changing) it also keeps both away from the node, because a GPU in use can't be cut, and what they have
    told before would be wrong. With O(state=shared) they come back.
  - How the node was before stands in its annotation C(gpulab.io/gpu-sharing) meanwhile, so that an interrupted run can
    be resumed.
  - It looks after no other pod. Make sure first that none uses the GPUs.
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
  configuration:
    description: Name of the configuration, one of those that P(gpulab.kubernetes.device_plugin_config#filter) makes.
    type: str
    required: true
  amounts:
    description: Resource -> how much of it the node shall offer. It is compared, and nothing else is done with it.
    type: dict
    default: {}
  state:
    description: Whether the GPUs are about to change, or shared as declared.
    type: str
    choices: [changing, shared]
    default: shared
  pause:
    description:
      - Labels, or how they begin, by which another places pods that hold the GPUs, such as
        C(nvidia.com/gpu.deploy.device-plugin) of the GPU Operator.
      - Those that are C(true) say C(paused-for-gpu-sharing) from O(state=changing) to O(state=shared).
    type: list
    elements: str
    default: []
  leaving:
    description:
      - Pods that have to leave the node, as C(NAMESPACE/APP) with the value of their label C(app). Empty means that
        nobody is waited for.
    type: list
    elements: str
    default: []
  timeout:
    description: How long to wait until they have left, in seconds.
    type: float
    default: 120
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - A node that does not exist yet is no error in check mode.
  diff_mode:
    support: full
    details: [Shows the resources of the node before and after.]
  idempotent:
    support: full
requirements:
  - kubernetes (Python package)
"""

EXAMPLES = r"""
- name: Keep the device plugin away from a node whose GPUs are about to be cut
  gpulab.kubernetes.gpu_sharing:
    kubeconfig: /run/user/1000/kubeconfig
    node: gpu1
    configuration: mig-mixed
    amounts:
      nvidia.com/mig-1g.5gb: 14
    state: changing
"""

RETURN = r"""
#
"""

from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._cluster import nodes, sharing
from ..module_utils._cluster.api import Api
from ..module_utils._cluster.maintenance import LABEL, SHARING, Maintenance, Plan
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    api = Api(params["kubeconfig"])
    if module.check_mode and api.find(nodes.path(params["node"])) is None:
        return _result(params, sharing.Node(), True)
    work = Maintenance(api, params["node"], SHARING, module.check_mode)
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
