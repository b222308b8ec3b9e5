#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_upgrade
short_description: Upgrade the control plane of a host, or the kubelet's configuration of a worker
version_added: 0.3.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Runs C(kubeadm upgrade apply) or C(kubeadm upgrade node) with an UpgradeConfiguration, and waits until all
    components of the control plane are healthy - the API server with its C(/readyz), etcd also with a quorum.
  - kubeadm must already have the new version. Packages are not changed, and the kubelet is not restarted.
  - Before anything changes, etcd must have a quorum, and keep it while its member on this host restarts. The only
    member of a cluster may restart.
  - The files as they were before are in C(/var/lib/gpulab/control-plane) until everything is healthy. After an
    interruption, the next run restores manifests that are missing, and runs kubeadm again, which continues.
  - If it fails, the files from before are restored, unless all components have the new version already, or etcd has
    moved to a new minor. The message says which of these is the case.
  - Of the copies that kubeadm leaves in C(/etc/kubernetes/tmp), the newest of each kind stays.
options:
  version:
    description: New version of Kubernetes, such as V(1.37.2).
    type: str
  action:
    description:
      - V(apply) on the first control plane, which also changes the cluster, V(node) on all other hosts.
      - An upgrade that was interrupted is repeated with the action that it had.
      - V(repair) lets the API answer again after an interruption. It restores files that were lost. If the API server
        does not become healthy, it restores the files from before the upgrade, but not etcd's manifest if this has
        moved to a new minor.
    type: str
    choices: [apply, node, repair]
    required: true
  configuration:
    description: UpgradeConfiguration of kubeadm. Its directories of patches must exist.
    type: dict
  cluster:
    description: ClusterConfiguration that is stored in the cluster, from which kubeadm chooses etcd's image.
    type: dict
  etcd:
    description:
      - Tag that the image of etcd must have. If kubeadm would install another one, nothing is changed.
      - If empty, it is not checked, as with external etcd.
    type: str
    default: ""
  health_timeout:
    description: Time limit in seconds until a component is healthy.
    type: int
    default: 120
  timeout:
    description: Time limit in seconds for kubeadm.
    type: int
    default: 900
  executable:
    description: Name or path of kubeadm.
    type: str
    default: kubeadm
  etcdctl:
    description: Name or path of etcdctl.
    type: str
    default: etcdctl
  etcd_endpoint:
    description: Address of etcd on this host.
    type: str
    default: https://127.0.0.1:2379
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: ["It shows the versions of components."]
  idempotent:
    support: partial
    details:
      - O(action=apply) runs kubeadm each time, and so does O(action=node) on a worker, which is changed only if its
        kubelet's configuration is.
requirements:
  - kubeadm, crictl, and etcdctl if etcd runs on this host (the role P(gpulab.kubernetes.etcd#role) installs it)
seealso:
  - module: gpulab.kubernetes.kubeadm_control_plane
  - module: gpulab.kubernetes.kubeadm_upgrade_info
"""

EXAMPLES = r"""
- name: Upgrade the first control plane
  gpulab.kubernetes.kubeadm_upgrade:
    version: 1.37.2
    action: apply
    etcd: 3.7.0-0
    etcdctl: /usr/local/lib/gpulab/etcd-3.6.8/etcdctl
    configuration:
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: UpgradeConfiguration
      apply:
        patches: {directory: /etc/kubernetes/patches}
"""

RETURN = r"""
action:
  description: How kubeadm ran, or would run in check mode; empty if nothing was pending.
  returned: success
  type: str
  sample: apply
changes:
  description: Components of the control plane whose version changes, and manifests that were restored.
  returned: success
  type: list
  elements: str
  sample: ["kube-apiserver: v1.36.5 -> v1.37.2"]
interrupted:
  description: Whether an earlier run was interrupted.
  returned: success
  type: bool
undone:
  description: Whether the files as they were before are in place again, and everything is healthy.
  returned: when the upgrade failed, and its files from before could be used
  type: bool
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubeadm.upgrade import APPLY, NODE, REPAIR, Upgrade
from ..module_utils._module import QuietModule, run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    return Upgrade(module).ensure()


def main() -> None:
    module = QuietModule(
        argument_spec={
            "version": {"type": "str"},
            "action": {"type": "str", "choices": [APPLY, NODE, REPAIR], "required": True},
            "configuration": {"type": "dict"},
            "cluster": {"type": "dict"},
            "etcd": {"type": "str", "default": ""},
            "health_timeout": {"type": "int", "default": 120},
            "timeout": {"type": "int", "default": 900},
            "executable": {"type": "str", "default": "kubeadm"},
            "etcdctl": {"type": "str", "default": "etcdctl"},
            "etcd_endpoint": {"type": "str", "default": "https://127.0.0.1:2379"},
            "root": {"type": "path", "default": "/"},
        },
        required_if=[("action", action, ("version", "configuration")) for action in (APPLY, NODE)],
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
