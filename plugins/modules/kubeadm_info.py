#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_info
short_description: Read certificates and join tokens of this control plane
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the output of C(kubeadm certs check-expiration), which is JSON since kubeadm 1.30 and a table in earlier
    versions (C(kubeadm alpha certs check-expiration) until 1.19). kubeadm reads the files of this host, so it works on
    each control plane even if the API is not reachable. The kubelet's certificates are not included; the kubelet renews
    them itself.
  - Reads the output of C(kubeadm token list), which is JSON since kubeadm 1.17 and a table in earlier versions. The
    secret halves of the tokens are omitted, so the result may be logged. M(gpulab.kubernetes.kubeadm_join_info) returns
    a complete token.
options:
  gather:
    description: What to read.
    type: list
    elements: str
    choices: [certificates, tokens]
    default: [certificates, tokens]
  executable:
    description: Name or path of kubeadm.
    type: str
    default: kubeadm
  kubeconfig:
    description: Kubeconfig of an administrator of the cluster.
    type: path
    default: /etc/kubernetes/admin.conf
  timeout:
    description: Time limit in seconds for each call of kubeadm.
    type: int
    default: 120
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: Read when the certificates expire
  gpulab.kubernetes.kubeadm_info:
    gather: [certificates]
  register: found

- name: Fail if certificates expire within a month
  ansible.builtin.fail:
    msg: "These expire soon, run kubeadm certs renew: {{ soon | map(attribute='name') | join(', ') }}"
  vars:
    soon: "{{ found.certificates | rejectattr('missing') | selectattr('days_left', 'lt', 30) }}"
  when: soon | length > 0

- name: Read the join tokens
  gpulab.kubernetes.kubeadm_info:
    gather: [tokens]
  register: found

- name: Show the tokens that never expire
  ansible.builtin.debug:
    msg: "{{ found.tokens | selectattr('lets_join') | selectattr('expires', 'none') | map(attribute='id') }}"
"""

RETURN = r"""
certificates:
  description: Certificates of this control plane and of its kubeconfigs, in kubeadm's order.
  returned: with V(certificates) in O(gather)
  type: list
  elements: dict
  contains:
    name:
      description: Name, such as V(apiserver) or V(admin.conf).
      type: str
    expires:
      description: Expiry time in UTC, to the minute if read from a table. Null if the certificate is missing.
      type: str
    days_left:
      description: >-
        Whole days until the certificate expires, as counted by kubeadm and rounded down; negative if it has expired.
        Null if the certificate is missing.
      type: int
    ca:
      description: CA that signed the certificate. Null if kubeadm does not report it.
      type: str
    externally_managed:
      description: >-
        Whether its CA is managed outside the cluster, so that kubeadm can't renew it. Null if the certificate is
        missing.
      type: bool
    missing:
      description: >-
        Whether it does not exist. This is not necessarily a problem, because C(super-admin.conf) exists only on the
        first control plane.
      type: bool
  sample:
    - name: apiserver
      expires: "2027-11-21T09:30:00Z"
      days_left: 364
      ca: ca
      externally_managed: false
      missing: false
certificate_authorities:
  description: CAs, in kubeadm's order. Empty if kubeadm does not list them, as in early versions.
  returned: with V(certificates) in O(gather)
  type: list
  elements: dict
  contains:
    name:
      description: Name, such as V(ca) or V(etcd-ca).
      type: str
    expires:
      description: As for a certificate.
      type: str
    days_left:
      description: >-
        As for a certificate. Tables show longer times in years; the days are then computed with this host's clock.
      type: int
    externally_managed:
      description: Whether kubeadm does not have its key. Null if the CA is missing.
      type: bool
    missing:
      description: Whether it does not exist.
      type: bool
  sample:
    - name: ca
      expires: "2036-11-18T09:30:00Z"
      days_left: 3649
      externally_managed: false
      missing: false
tokens:
  description: Bootstrap tokens, in kubeadm's order.
  returned: with V(tokens) in O(gather)
  type: list
  elements: dict
  contains:
    id:
      description: >-
        The first six characters, which are not secret. They are part of the name of the token's Secret, and C(kubeadm
        token delete) accepts them.
      type: str
    description:
      description: Description of the token. Null if it has none.
      type: str
    usages:
      description: Allowed usages, such as V(authentication) and V(signing).
      type: list
      elements: str
    groups:
      description: Groups of users who authenticate with the token.
      type: list
      elements: str
    expires:
      description: Expiry time in UTC. Null if it never expires.
      type: str
    ttl:
      description: Seconds until the token expires, 0 if it has expired. Null if it never expires.
      type: int
    lets_join:
      description: Whether a worker can currently join with this token.
      type: bool
  sample:
    - id: abcdef
      description: made by gpulab.kubernetes
      usages: [authentication, signing]
      groups: ["system:bootstrappers:kubeadm:default-node-token"]
      expires: "2026-11-21T09:30:00Z"
      ttl: 3480
      lets_join: true
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubeadm.info import certs_info, token_info
from ..module_utils._kubeadm.run import Kubeadm
from ..module_utils._module import run

READERS = {"certificates": certs_info, "tokens": token_info}


def run_module(module: AnsibleModule) -> dict[str, Any]:
    kubeadm = Kubeadm(module, module.params["executable"], module.params["timeout"])
    return {
        name: value
        for subject, read in READERS.items()
        if subject in module.params["gather"]
        for name, value in read(kubeadm, module.params["kubeconfig"]).items()
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gather": {"type": "list", "elements": "str", "choices": list(READERS), "default": list(READERS)},
            "executable": {"type": "str", "default": "kubeadm"},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
