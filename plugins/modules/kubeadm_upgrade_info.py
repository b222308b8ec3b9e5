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
  - Reads the versions of the control plane's components, the flags of the kubelet, images, free space, and what earlier
    upgrades have left on the host.
  - With O(cluster), also reads nodes, pods, API groups and etcd's members. It needs C(admin.conf) on this host.
options:
  images:
    description: Images that the upgrade needs; those that the host lacks are returned.
    type: list
    elements: str
    default: []
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
    missing:
      description: Images of O(images) that the host lacks.
      type: list
      elements: str
    free:
      description: Bytes that are free for kubeadm's copies.
      type: int
    etcd_data:
      description: Size of etcd's data in bytes, which kubeadm copies.
      type: int
    copies:
      description: Directories that kubeadm has left in C(/etc/kubernetes/tmp), the newest first.
      type: list
      elements: str
    interrupted:
      description: Kind of a change of the control plane that was interrupted, empty if there is none.
      type: str
    settings:
      description: Version and action of an upgrade that was interrupted.
      type: dict
etcd:
  description: Members of etcd, as from M(gpulab.kubernetes.etcd_info).
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
      description: Name, kubelet, and whether each node is ready and cordoned.
      type: list
      elements: dict
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
    configuration:
      description: ClusterConfiguration of kubeadm as text.
      type: str
    proxy:
      description: Configuration of kube-proxy as text.
      type: str
    coredns:
      description: Tag of the image of CoreDNS.
      type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._errors import DomainError
from ..module_utils._kubeadm.upgrade_info import read_cluster, read_etcd, read_host
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    root = module.params["root"]
    found: dict[str, Any] = {"host": read_host(module, root, module.params["images"]), "etcd": [], "etcd_error": ""}
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
            "images": {"type": "list", "elements": "str", "default": []},
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
