#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_restore
short_description: Restore a control plane from an archive of a backup
version_added: 0.3.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Verifies the whole archive before anything changes, and shows what a restore loses. In check mode, it ends there.
  - Neither the Kubernetes API nor etcd is needed. The objects of the snapshot, and those of the data that the host
    still has, are read from the files.
  - "Then it restores the host, in these steps: stop the kubelet and the control plane; move its data aside to
    C(/var/lib/gpulab/aside-TIME), deleting nothing; restore the snapshot as a new etcd of one member; write the keys
    of the archive; let kubeadm create certificates, kubeconfigs and manifests; start the kubelet, and wait until the
    control plane is healthy."
  - The revision of etcd increases by one billion, and everything before is compacted, so that clients that watch
    objects notice the restore.
  - Each step is noted in C(/var/lib/gpulab/restore.json). After an interruption, also a power failure, the next run
    with the same archive continues. An archive that was restored is not restored a second time.
  - The kubelet keeps its certificate if this is of the cluster in the archive, valid and whole. Other pods of the host
    continue to run.
options:
  archive:
    description: Path of the archive on the host. If its name ends in C(.age), it is decrypted by C(age).
    type: path
    required: true
  identity:
    description: Identity of age with which to decrypt the archive. It reaches age by its standard input.
    type: str
    default: ""
  cluster_name:
    description: Name of the cluster in the inventory. The archive must have the same.
    type: str
    required: true
  kubernetes_version:
    description: Version of Kubernetes on the host. The archive must have the same minor version.
    type: str
    required: true
  node:
    description: InitConfiguration of kubeadm for this host.
    type: dict
    required: true
  kubelet:
    description: KubeletConfiguration and others, for a host whose kubelet is set up.
    type: list
    elements: dict
    default: []
  api_names:
    description: Names of the API that lead to this host. The archive's endpoint must be one of them, or its address.
    type: list
    elements: str
    default: []
  trusted:
    description: For each other host, the hashes of the CAs that it trusts, in kubeadm's form.
    type: dict
    default: {}
  endpoints:
    description: >-
      For each other host that is a node, the API's endpoint that its kubelet uses, as host:port. It must lead to this
      host, as that in the archive. Names among them are added to the API server's certificate, because the archive may
      be older than the migration of the endpoint to a name.
    type: dict
    default: {}
  pods:
    description: >-
      For each node, by its name, the pods that M(gpulab.kubernetes.node_pods_info) returned, null for one that was not
      read.
    type: dict
    default: {}
  control_planes:
    description: Hosts in the inventory that are control planes. Only one is supported.
    type: list
    elements: str
    default: []
  accept:
    description: >-
      What to accept that is otherwise refused. V(cluster_name) is an archive of another cluster,
      V(kubernetes_version) one of another minor version, V(ca) one with another CA than the other hosts trust, or
      than this host has, V(endpoint) that the archive or a node has an endpoint that does not lead to this host.
    type: list
    elements: str
    choices: [ca, cluster_name, endpoint, kubernetes_version]
    default: []
  again:
    description: Whether to restore an archive that was restored on this host already.
    type: bool
    default: false
  age:
    description: Name or path of age.
    type: str
    default: age
  etcdctl:
    description: Name or path of etcdctl, with which a running etcd is asked for its objects.
    type: str
    default: etcdctl
  etcdutl:
    description: Name or path of etcdutl, of the version of the server.
    type: str
    default: etcdutl
  etcd_endpoint:
    description: Client URL of the member of etcd on this host.
    type: str
    default: https://127.0.0.1:2379
  executable:
    description: Name or path of kubeadm.
    type: str
    default: kubeadm
  health_timeout:
    description: Seconds that each component of the control plane may take to become healthy.
    type: int
    default: 120
  timeout:
    description: Time limit in seconds for each program.
    type: int
    default: 900
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
    details: [It decrypts and verifies the archive in a private directory, which it removes, and returns the preview.]
  diff_mode:
    support: none
  idempotent:
    support: full
requirements:
  - etcdutl
  - kubeadm
  - age, if the archive is encrypted
"""

EXAMPLES = r"""
- name: Show what a restore loses
  gpulab.kubernetes.cluster_restore:
    archive: /var/lib/gpulab/restore/gpulab-lab-20261128T120000Z.tar
    cluster_name: lab
    kubernetes_version: 1.36.4
    node:
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: InitConfiguration
      nodeRegistration: {name: cp1}
      localAPIEndpoint: {advertiseAddress: 192.0.2.11}
  check_mode: true
  register: preview
"""

RETURN = r"""
restored:
  description: Whether the host is restored from this archive.
  returned: success
  type: bool
  sample: true
lines:
  description: What a restore changes, as lines for people.
  returned: success
  type: list
  elements: str
  sample: ["No object has changed since 2026-11-28 12:00:00 UTC."]
moved_aside:
  description: Where the files that the host had are now.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/gpulab/aside-20261128T121500.000000Z/etc/kubernetes/pki]
backup:
  description: What the manifest of the archive contains, without its parts.
  returned: unless the archive was restored already
  type: dict
  sample: {cluster: lab, node: cp1, kubernetes: 1.36.4, taken: "2026-11-28T12:00:00Z"}
source:
  description: >-
    Where the objects before the restore were read, V(etcd) if it answers, V(files) for its files, or V(unknown) if
    neither is possible.
  returned: unless the archive was restored already
  type: str
  sample: files
endpoint:
  description: Endpoint of the cluster, as host:port. Empty if it is one of O(api_names).
  returned: unless the archive was restored already
  type: str
  sample: 192.0.2.11:6443
ca:
  description: Certificates of the cluster's CAs in PEM.
  returned: unless the archive was restored already
  type: str
  sample: "-----BEGIN CERTIFICATE-----..."
lost:
  description: Objects that the snapshot does not have.
  returned: unless the archive was restored already
  type: list
  elements: dict
  contains:
    kind:
      description: Plural of the kind, with the group of a custom resource.
      type: str
    namespace:
      description: Namespace, empty for objects that have none.
      type: str
    name:
      description: Name.
      type: str
  sample: [{kind: configmaps, namespace: default, name: settings}]
ending:
  description: Running pods that end after the restore, because the snapshot does not have them on their node.
  returned: unless the archive was restored already
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
    namespace:
      description: Namespace of the pod.
      type: str
    name:
      description: Name of the pod.
      type: str
    gpus:
      description: Number of its GPUs.
      type: int
    owner:
      description: Its owner, as KIND/NAME. Empty if it is not known.
      type: str
    why:
      description: The reason.
      type: str
  sample:
    - node: gpu1
      namespace: research
      name: train-x7k2p
      gpus: 2
      owner: Job/train
      why: it was created after the snapshot
refusals:
  description: Kinds of the refusals, as in O(accept).
  returned: if the archive is refused
  type: list
  elements: str
  sample: [cluster_name]
"""

from ..module_utils._backup.apply import ensure
from ..module_utils._backup.refusals import ACCEPTABLE
from ..module_utils._module import QuietModule, run


def main() -> None:
    module = QuietModule(
        argument_spec={
            "archive": {"type": "path", "required": True},
            "identity": {"type": "str", "default": "", "no_log": True},
            "cluster_name": {"type": "str", "required": True},
            "kubernetes_version": {"type": "str", "required": True},
            "node": {"type": "dict", "required": True},
            "kubelet": {"type": "list", "elements": "dict", "default": []},
            "api_names": {"type": "list", "elements": "str", "default": []},
            "trusted": {"type": "dict", "default": {}},
            "endpoints": {"type": "dict", "default": {}},
            "pods": {"type": "dict", "default": {}},
            "control_planes": {"type": "list", "elements": "str", "default": []},
            "accept": {"type": "list", "elements": "str", "choices": sorted(ACCEPTABLE), "default": []},
            "again": {"type": "bool", "default": False},
            "age": {"type": "str", "default": "age"},
            "etcdctl": {"type": "str", "default": "etcdctl"},
            "etcdutl": {"type": "str", "default": "etcdutl"},
            "etcd_endpoint": {"type": "str", "default": "https://127.0.0.1:2379"},
            "executable": {"type": "str", "default": "kubeadm"},
            "health_timeout": {"type": "int", "default": 120},
            "timeout": {"type": "int", "default": 900},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, ensure)


if __name__ == "__main__":
    main()
