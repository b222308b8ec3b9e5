#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_control_plane
short_description: Change the configuration or renew the certificates of a running control plane
version_added: 0.3.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Compares the static pods of one control plane with its configuration, and the names in the API server's certificate
    with those in the configuration. Manifests and certificate are created by kubeadm in a directory of their own
    (C(kubeadm init phase --dry-run)), so patches in C(/etc/kubernetes/patches) count.
  - What differs is changed, one component after the other, etcd last. The module waits until the kubelet has started
    the new container and it is healthy - the API server of this host with its C(/readyz), the others at the address of
    their probes, etcd also with a quorum.
  - If the kubelet delays the restart of a component that has ended often, it is restarted once, which ends the delay.
  - If a component is not healthy within O(health_timeout), all files are restored, and the module fails when everything
    is healthy again. The error contains the last lines of the container.
  - Before anything changes, etcd must have a quorum, and keep it while its member on this host restarts. The only
    member of a cluster may restart.
  - The files as they were before are in C(/var/lib/gpulab/control-plane) until the change is healthy and all files are
    valid. After an interruption, the next run first undoes a change of the configuration, or repeats a renewal of the
    certificates from the copies. Copies of another cluster, which was on this host before, are removed.
  - Run it on one control plane after the other. While the only control plane changes, the API does not answer for a few
    seconds for each component.
options:
  node:
    description: InitConfiguration of kubeadm for this host.
    type: dict
    required: true
  cluster:
    description: ClusterConfiguration of kubeadm that is to run.
    type: dict
    required: true
  recorded:
    description:
      - ClusterConfiguration that is stored in the cluster (ConfigMap C(kubeadm-config)).
      - With it, settings that only a manifest or only the certificate has, because they were edited, are recognized.
        They are kept, and a change that would remove them is refused.
      - Without it, they are removed.
    type: dict
  keep_names:
    description:
      - Names that the certificate of the API server keeps if it has them, although neither configuration does, such as
        after an interrupted change of the endpoint.
    type: list
    elements: str
    default: []
    version_added: 0.3.0
  compare:
    description:
      - Whether to compare the manifests and the certificate's names.
      - Otherwise, only certificates are renewed, and what was interrupted is undone or repeated.
    type: bool
    default: true
  certificates:
    description:
      - V(all) renews the certificates that kubeadm manages, and restarts what reads them, but not the kubelet's.
      - V(expired) does this only if one of them has expired. If it is one that no component reads, such as that of
        C(admin.conf), it alone is renewed, and nothing restarts. Otherwise, neither etcd nor other components are
        asked, and nothing is undone, because the control planes need each other to become healthy. Run the module with
        O(verify) afterwards, which removes the copies of the former certificates. If nothing has expired, and an
        interrupted renewal has damaged C(admin.conf), the former one is restored.
      - V(keep) renews nothing.
      - A renewal is refused if it can't help, because a CA has expired or the CA's key is not on this host.
    type: str
    choices: [keep, expired, all]
    default: keep
  verify:
    description: Whether to wait until everything is healthy even if nothing changes.
    type: bool
    default: false
  restart:
    description:
      - Whether components may restart. If they may not, and one would, nothing changes, and the result is that of check
        mode with RV(pending).
    type: bool
    default: true
  upload:
    description: Whether to store O(cluster) in the cluster when this control plane has it. Set it for the last one.
    type: bool
    default: false
  health_timeout:
    description: Time limit in seconds for each component to become healthy.
    type: int
    default: 120
  controller_time:
    description:
      - Time on the controller in seconds since 1970. Nothing is renewed if this host's clock differs by more than five
        minutes. With V(0), they are not compared.
    type: float
    default: 0
  timeout:
    description: Time limit in seconds for each run of kubeadm, and for pulling an image.
    type: int
    default: 900
  executable:
    description: Name or path of kubeadm.
    type: str
    default: kubeadm
  etcdctl:
    description: Name or path of etcdctl. Its version should be that of the server.
    type: str
    default: etcdctl
  etcd_endpoint:
    description: Client URL of etcd's member on this host. If it does not listen there, its first one is used.
    type: str
    default: https://127.0.0.1:2379
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
    details:
      - kubeadm creates the manifests and a certificate to compare with in a temporary directory. etcd is asked if
        O(etcdctl) is installed.
  diff_mode:
    support: full
  idempotent:
    support: partial
    details: ["O(certificates=all) and O(upload) make a change each time."]
requirements:
  - kubeadm, crictl, and etcdctl if etcd runs on this host (the role P(gpulab.kubernetes.etcd#role) installs it)
seealso:
  - module: gpulab.kubernetes.kubeadm_init
  - module: gpulab.kubernetes.etcd_info
"""

EXAMPLES = r"""
- name: Change a flag of the API server
  gpulab.kubernetes.kubeadm_control_plane:
    etcdctl: /usr/local/lib/gpulab/etcd-3.6.8/etcdctl
    node:
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: InitConfiguration
      localAPIEndpoint: {advertiseAddress: 192.0.2.10, bindPort: 6443}
      nodeRegistration: {name: cp1, criSocket: unix:///var/run/containerd/containerd.sock}
    cluster:
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: ClusterConfiguration
      kubernetesVersion: v1.36.5
      controlPlaneEndpoint: 192.0.2.10:6443
      networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12, dnsDomain: cluster.local}
      apiServer:
        extraArgs: [{name: event-ttl, value: 2h}]
    upload: true
"""

RETURN = r"""
changes:
  description:
    - What has changed, or would. What an interrupted change has left begins with C(undone).
    - Secrets are masked, and of more than 50 lines, the others are counted.
  returned: success
  type: list
  elements: str
  sample: ["kube-apiserver: --event-ttl (not set) -> 2h"]
edits:
  description: Settings that only a manifest has, and that were kept.
  returned: success
  type: list
  elements: str
  sample: ["kube-scheduler: --v 4 -> (not set)"]
lost:
  description: Those of C(edits) that a new manifest would not have. An upgrade of Kubernetes writes new manifests.
  returned: success
  type: list
  elements: str
  sample: ["kube-scheduler: --v 4 -> (not set)"]
restarted:
  description: Components that have restarted, or would in check mode.
  returned: success
  type: list
  elements: str
  sample: [kube-apiserver]
interrupted:
  description: Whether an earlier run was interrupted, so that its change was undone or repeated first.
  returned: success
  type: bool
pending:
  description: Whether nothing has changed because components would restart, but O(restart) is false.
  returned: success
  type: bool
uploaded:
  description: Whether the configuration was stored in the cluster, or would be in check mode.
  returned: success
  type: bool
undone:
  description: Whether the files as they were before are in place again, and everything is healthy.
  returned: when a component was not healthy
  type: bool
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubeadm.control_plane import ALL, EXPIRED, KEEP, ControlPlane
from ..module_utils._module import QuietModule, run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    return ControlPlane(module).ensure()


def main() -> None:
    module = QuietModule(
        argument_spec={
            "node": {"type": "dict", "required": True},
            "cluster": {"type": "dict", "required": True},
            "recorded": {"type": "dict"},
            "keep_names": {"type": "list", "elements": "str", "default": []},
            "compare": {"type": "bool", "default": True},
            "certificates": {"type": "str", "choices": [KEEP, EXPIRED, ALL], "default": KEEP},
            "verify": {"type": "bool", "default": False},
            "restart": {"type": "bool", "default": True},
            "upload": {"type": "bool", "default": False},
            "health_timeout": {"type": "int", "default": 120},
            "controller_time": {"type": "float", "default": 0},
            "timeout": {"type": "int", "default": 900},
            "executable": {"type": "str", "default": "kubeadm"},
            "etcdctl": {"type": "str", "default": "etcdctl"},
            "etcd_endpoint": {"type": "str", "default": "https://127.0.0.1:2379"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
