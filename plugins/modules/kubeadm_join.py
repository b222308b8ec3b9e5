#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_join
short_description: Join this host to a cluster
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Runs C(kubeadm join) on a host that does not belong to a cluster, and does nothing if the host already belongs to
    the intended cluster.
  - A host with a kubelet.conf belongs to a cluster. It is the intended cluster if the CA in this file has one of
    O(ca_cert_hashes). The kubelet's own certificate is used to check that the node still exists in the API; if the API
    does not answer, the module only warns.
  - If the host belongs to another cluster, or its node was deleted from the API, the module fails with advice. Nothing
    is reset.
  - The remains of a C(kubeadm join) that was interrupted before the kubelet got its certificate are moved to
    C(/var/lib/gpulab/aside-TIME). Then the host joins.
  - The same happens if the kubelet can't start because its files are empty, cut off or missing, as after a power
    failure. The host joins under its name as soon as its node is no longer ready, because C(kubeadm join) refuses a
    node that is ready. If the kubelet is still running, the module only warns. If neither kubelet.conf nor ca.crt nor
    the note that this module keeps in C(/var/lib/gpulab/kubeadm-join.json) during a join shows which cluster the host
    belongs to, the module fails.
  - If kubelet.conf and the kubelet's certificate are whole then, the API is asked first; nothing is moved if the node
    was deleted, or if the API does not answer.
  - What kubeadm and the kubelet have written is on the disk when the module ends, so that it survives a power failure.
    If that fails or takes longer than two minutes, the module warns, and the next run tries it again. While the kernel
    waits for a disk that does not respond, the module can't end.
  - If another kubeadm is still running on the host, for example because its controller was killed, the module waits for
    it.
options:
  api_endpoint:
    description: Address of the cluster's API. Required to join, unless O(config) is given.
    type: dict
    suboptions:
      host:
        description: Name or address. An IPv6 address has no brackets.
        type: str
      port:
        description: Port.
        type: int
  token:
    description: Valid bootstrap token. Required to join, unless O(config) is given.
    type: str
  ca_cert_hashes:
    description:
      - Hashes of the public keys of the cluster's CAs, such as V(sha256:7c2e...).
      - Without them, a host in any cluster counts as joined.
    type: list
    elements: str
    default: []
  config:
    description:
      - Complete JoinConfiguration for kubeadm in YAML. If unset, a configuration is created from O(api_endpoint),
        O(token), O(ca_cert_hashes) and O(node_name).
      - It is passed to kubeadm in a file with mode 0600 in C(/run/gpulab), which is removed afterwards.
    type: str
  discovery:
    description:
      - Kubeconfig with the address and the CA of the cluster, for an O(config) whose C(discovery.file.kubeConfigPath)
        is C(/run/gpulab/kubeadm-discovery.yaml). The file exists only while kubeadm runs.
    type: str
    version_added: 0.2.0
  control_plane:
    description:
      - Whether the host becomes a control plane next to the existing ones. Set O(pki), too.
      - What an interrupted join of a control plane has left is moved to C(/var/lib/gpulab/aside-TIME), with the data of
        its etcd. Remove its member of etcd first (M(gpulab.kubernetes.etcd_member)). A control plane whose join has
        finished is never changed.
    type: bool
    default: false
    version_added: 0.3.0
  pki:
    description:
      - The CAs and keys that all control planes share, texts by path, as M(gpulab.kubernetes.kubeadm_join_info) returns
        them. They are written right before kubeadm runs.
    type: dict
    default: {}
    version_added: 0.3.0
  ignore_preflight_errors:
    description: Preflight checks of C(kubeadm join) whose errors are treated as warnings.
    type: list
    elements: str
    default: []
  node_name:
    description: Name of the node. The default is the host name. Not used if O(config) is given.
    type: str
  timeout:
    description: Time limit in seconds for C(kubeadm join), and for waiting until another running kubeadm has ended.
    type: int
    default: 600
  api_timeout:
    description: Seconds to wait until a host that has just joined appears in the API.
    type: int
    default: 60
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
    details:
      - Nothing is run, and no token is required. A host that would fail also fails in check mode.
      - A name of the API that M(gpulab.kubernetes.hosts_file) has not written yet does not count as an API that does
        not answer.
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: gpulab.kubernetes.kubeadm_join_info
"""

EXAMPLES = r"""
- name: Join the worker
  gpulab.kubernetes.kubeadm_join:
    api_endpoint: "{{ join_info.api_endpoint }}"
    token: "{{ join_info.token }}"
    ca_cert_hashes: "{{ join_info.ca_cert_hashes }}"
    node_name: "{{ inventory_hostname }}"
"""

RETURN = r"""
joined:
  description: Whether the host is now a node of the cluster. In check mode, the current state.
  returned: success
  type: bool
  sample: true
reason:
  description: Reason why the module acted or did nothing.
  returned: success
  type: str
  sample: this host is node gpu1 of the cluster at https://10.0.0.10:6443
node_name:
  description: Name of the node, null if the host does not belong to a cluster.
  returned: success
  type: str
  sample: gpu1
resumed:
  description: Whether the remains of an interrupted join were removed, or in check mode would be.
  returned: success
  type: bool
  version_added: 0.3.0
moved_aside:
  description: Paths to which the remains of an interrupted join were moved.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.kubeadm_join import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
