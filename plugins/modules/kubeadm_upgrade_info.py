#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_upgrade_info
short_description: Read what an upgrade of Kubernetes changes on a host and in its cluster
version_added: 0.3.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the versions of the control plane's components, the flags of the kubelet, free space, and whether an earlier
    change of the control plane was interrupted.
  - With O(cluster), also reads nodes, pods, API groups and etcd's members. It needs C(admin.conf) on this host.
options:
  cluster:
    description: Whether to read the cluster, too.
    type: bool
    default: false
  etcdctl:
    description: Name or path of etcdctl. Without it, etcd is not asked.
    type: str
    default: etcdctl
  etcd_endpoint:
    description: Address of etcd on this host.
    type: str
    default: https://127.0.0.1:2379
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
  - gpulab.kubernetes.attributes.root
"""

EXAMPLES = r"""
- name: Read what an upgrade would change
  gpulab.kubernetes.kubeadm_upgrade_info:
    cluster: true
  register: found
"""

RETURN = r"""
host:
  description: Facts of the host.
  returned: success
  type: dict
  contains:
    components:
      description: Tags of the images of the static pods, by component; empty on a worker.
      type: dict
    flags:
      description: Names of flags in the files with the kubelet's arguments.
      type: list
      elements: str
    gates:
      description: Names of feature gates in these files.
      type: list
      elements: str
    free:
      description: Free space for kubeadm's copies in MiB.
      type: int
    etcd_data:
      description: Size of etcd's data in MiB, which kubeadm copies.
      type: int
    interrupted:
      description: Kind of a change of the control plane that was interrupted, empty if there is none.
      type: str
    settings:
      description: Version, action and tag of etcd of an upgrade that was interrupted.
      type: dict
etcd:
  description: >-
    Members of etcd, as from M(gpulab.kubernetes.etcd_info). Empty without O(cluster), without a member of etcd on this
    host, and without etcdctl.
  returned: success
  type: list
  elements: dict
etcd_error:
  description: Why etcd could not be asked, empty if it was.
  returned: success
  type: str
cluster:
  description: What the API knows; only C(error) if it does not answer.
  returned: with O(cluster)
  type: dict
  contains:
    error:
      description: Why the API could not be read, empty if it was.
      type: str
    nodes:
      description: Nodes as from M(gpulab.kubernetes.preflight_info).
      type: list
      elements: dict
    accepts_check:
      description: Whether the Job that kubeadm creates as a check can run on a node, which depends on taints.
      type: bool
    pods:
      description: Pods that a drain evicts, with node, controller and emptyDir volumes.
      type: list
      elements: dict
    groups:
      description: API groups.
      type: list
      elements: str
    old_objects:
      description: Objects of C(scheduling.k8s.io/v1alpha2), which Kubernetes 1.37 does not have.
      type: list
      elements: str
    coredns:
      description: Tag of the image of CoreDNS.
      type: str
    kube_proxy:
      description: Tag of the image of kube-proxy.
      type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import DomainError
from ..module_utils._kubeadm.upgrade_info import read_cluster, read_etcd, read_host
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    root = module.params["root"]
    found: dict[str, Any] = {"host": read_host(root), "etcd": [], "etcd_error": ""}
    if module.params["cluster"]:
        found["cluster"] = read_cluster(module, root)
        try:
            found["etcd"] = read_etcd(module, root)
        except DomainError as error:
            found["etcd_error"] = str(error)
    return found


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "bool", "default": False},
            "etcdctl": {"type": "str", "default": "etcdctl"},
            "etcd_endpoint": {"type": "str", "default": "https://127.0.0.1:2379"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
