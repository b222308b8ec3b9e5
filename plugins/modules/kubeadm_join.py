#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_join
short_description: Make sure that this host is a node of a cluster
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Runs C(kubeadm join) on a host that is in no cluster, and nothing on one that is in the wanted one.
  - A host that has a kubelet.conf is in a cluster. It is the wanted one when the CA in it has one of
    O(ca_cert_hashes). Whether the cluster still knows the node is asked with the kubelet's own certificate; when the
    API does not answer, that stays open and gives a warning.
  - A host of another cluster, and one whose node was deleted from the API, is an error with advice. Nothing is reset.
  - What an interrupted C(kubeadm join) left behind, before the kubelet got its certificate, is moved to
    C(/var/lib/gpulab/aside-TIME), and the host is joined then.
  - When another kubeadm is still at work on the host, such as one whose controller was killed, it is waited for.
options:
  api_endpoint:
    description: Where the API of the cluster is reached. Needed to join, unless O(config) is given.
    type: dict
    suboptions:
      host:
        description: Name or address, an IPv6 address without brackets.
        type: str
      port:
        description: Port.
        type: int
  token:
    description: A valid bootstrap token. Needed to join, unless O(config) is given.
    type: str
  ca_cert_hashes:
    description:
      - Hashes of the public keys of the cluster's CAs, such as V(sha256:7c2e...).
      - Without them a host that is in any cluster counts as joined.
    type: list
    elements: str
    default: []
  config:
    description:
      - A JoinConfiguration for kubeadm in YAML, with everything in it. Without it one is made of O(api_endpoint),
        O(token), O(ca_cert_hashes) and O(node_name).
      - It is given to kubeadm in a file of mode 0600 below C(/run/gpulab), which is removed afterwards.
    type: str
  discovery:
    description:
      - A kubeconfig with the address and the CA of the cluster, for an O(config) whose C(discovery.file.kubeConfigPath)
        is C(/run/gpulab/kubeadm-discovery.yaml). It is there while kubeadm runs.
    type: str
    version_added: 0.2.0
  ignore_preflight_errors:
    description: Preflight checks of C(kubeadm join) whose errors are only warnings.
    type: list
    elements: str
    default: []
  node_name:
    description: Name of the node. Without it kubeadm takes the host's name. Not used when O(config) is given.
    type: str
  timeout:
    description: Time limit for C(kubeadm join) in seconds, also for another kubeadm that is waited for.
    type: int
    default: 600
  api_timeout:
    description: How long a host that joined within the last minutes may take to appear in the API, in seconds.
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
      - Nothing is run, and nothing is needed to join with. A host that would get an error gets it as well.
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
  description: Whether the host is a node of the cluster now. In check mode it tells the state that was found.
  returned: success
  type: bool
  sample: true
reason:
  description: Why the module did what it did, or did nothing.
  returned: success
  type: str
  sample: this host is node gpu1 of the cluster at https://10.0.0.10:6443
node_name:
  description: The name under which the host is in the cluster, null while it is in none.
  returned: success
  type: str
  sample: gpu1
moved_aside:
  description: Where the remains of an interrupted join lie now.
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
