#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_endpoint
short_description: Change the endpoint of a running cluster
version_added: 0.3.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Changes the address of the API where kubeadm has stored it. Both endpoints must be valid meanwhile, so the
    certificate of the API server must have both names.
  - O(part=check) changes nothing, and fails if a later part can't be changed.
  - Change O(part=kubelet) on all hosts, then O(part=kubeconfigs) on the control planes, then O(part=cluster) on one of
    them. A part that has the new endpoint already is not changed, so an interrupted change can be repeated.
options:
  part:
    description:
      - V(check), on a control plane, checks that the inventory has a host for each node (O(nodes)), that all nodes are
        ready, and that the objects of the cluster have a known endpoint. V(cluster) does the same first.
      - V(kubelet) changes the kubelet's kubeconfig, and restarts the kubelet, which does not restart pods. The module
        waits until it has renewed the lease of its node; if it does not, its former endpoint is put back. The kubelet
        of a control plane keeps its own address, and is restarted only if that is pending for another reason
        (M(gpulab.kubernetes.managed_files)).
      - V(kubeconfigs) changes the administrators' kubeconfigs.
      - V(cluster) changes the ConfigMaps of kube-proxy and kubeadm, and restarts kube-proxy. If kube-proxy has proxy
        settings, the host of the endpoint is added to its C(NO_PROXY).
    type: str
    choices: [check, kubelet, kubeconfigs, cluster]
    required: true
  endpoint:
    description: The new endpoint, as C(host:port). A kubeconfig is changed only if it answers there.
    type: str
    required: true
  replaces:
    description: Former endpoints, as C(host:port). Any other is an error.
    type: list
    elements: str
    required: true
  nodes:
    description: Names of the nodes that know the new endpoint, for O(part=check) and O(part=cluster).
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds to wait for an answer of the API.
    type: float
    default: 60
  run_dir:
    description: Directory in which M(gpulab.kubernetes.managed_files) records pending restarts.
    type: path
    default: /run/gpulab
  root:
    description: Root directory of the host.
    type: path
    default: /
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.full
"""

EXAMPLES = r"""
- name: Let the kubelet reach the API by its name
  gpulab.kubernetes.kubeadm_endpoint:
    part: kubelet
    endpoint: api.lab.internal:6443
    replaces: ["192.0.2.10:6443"]
"""

RETURN = r"""
changes:
  description: What has changed, or would in check mode.
  returned: success
  type: list
  elements: str
  sample: ["kubelet.conf: https://192.0.2.10:6443 -> https://api.lab.internal:6443"]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubeadm.endpoint_change import CHECK, CLUSTER, KUBECONFIGS, KUBELET, EndpointChange
from ..module_utils._module import run
from ..module_utils._systemd import RUN_DIR


def run_module(module: AnsibleModule) -> dict[str, Any]:
    return EndpointChange(module).ensure()


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "part": {"type": "str", "choices": [CHECK, KUBELET, KUBECONFIGS, CLUSTER], "required": True},
            "endpoint": {"type": "str", "required": True},
            "replaces": {"type": "list", "elements": "str", "required": True},
            "nodes": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "float", "default": 60},
            "run_dir": {"type": "path", "default": RUN_DIR},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
