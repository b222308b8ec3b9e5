#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_certificate
short_description: Replace an expired client certificate of the kubelet
version_added: 0.3.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - The kubelet renews its client certificate itself while it runs. A machine that was off until the certificate expired
    can't do this, and its kubelet does not start.
  - On a control plane, a new certificate is signed with the CA's key, because the API server of a control plane can't
    answer before its kubelet runs.
  - On a worker, the kubelet requests a new certificate with O(token). The file with the token
    (C(/etc/kubernetes/bootstrap-kubelet.conf)) is removed when the kubelet has its certificate, and if that fails. A
    file that kubeadm has written stays.
  - Nothing happens if the certificate is valid, or if the host is not a node.
options:
  token:
    description: Bootstrap token of the cluster. Needed only on workers.
    type: str
    default: ""
  node:
    description: InitConfiguration of kubeadm for this host. Needed only on control planes.
    type: dict
    default: {}
  cluster:
    description: ClusterConfiguration of kubeadm. Needed only on control planes.
    type: dict
    default: {}
  node_name:
    description: Name of the node, if it can't be read from the expired certificate.
    type: str
    default: ""
  controller_time:
    description:
      - Time on the controller in seconds since 1970. Nothing is renewed if this host's clock differs by more than five
        minutes. With V(0), they are not compared.
    type: float
    default: 0
  timeout:
    description: Seconds to wait until the kubelet has its certificate.
    type: int
    default: 180
  executable:
    description: Name or path of kubeadm.
    type: str
    default: kubeadm
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: gpulab.kubernetes.kubeadm_control_plane
  - module: gpulab.kubernetes.kubeadm_join_info
"""

EXAMPLES = r"""
- name: Create a token
  gpulab.kubernetes.kubeadm_join_info:
  delegate_to: cp1
  register: join
  no_log: true

- name: Give the kubelet a new certificate if its own has expired
  gpulab.kubernetes.kubelet_certificate:
    token: "{{ join.token }}"
"""

RETURN = r"""
expired:
  description: Whether the certificate had expired, or could not be read.
  returned: success
  type: bool
  sample: true
token_left:
  description: Whether there was a file with a token, which an interrupted run has left.
  returned: success
  type: bool
  sample: false
lost_name:
  description: >-
    Name at which the kubelet reaches the API, if the certificate had expired, the name is in
    C(/var/lib/gpulab/cluster.json), and M(gpulab.kubernetes.hosts_file) has to write it again.
  returned: success
  type: str
  sample: ""
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubeadm.kubelet_certificate import KubeletCertificate
from ..module_utils._module import QuietModule, run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    return KubeletCertificate(module).ensure()


def main() -> None:
    module = QuietModule(
        argument_spec={
            "token": {"type": "str", "default": "", "no_log": True},
            "node": {"type": "dict", "default": {}},
            "cluster": {"type": "dict", "default": {}},
            "node_name": {"type": "str", "default": ""},
            "controller_time": {"type": "float", "default": 0},
            "timeout": {"type": "int", "default": 180},
            "executable": {"type": "str", "default": "kubeadm"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
