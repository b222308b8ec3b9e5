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
  - Reads C(kubeadm certs check-expiration), the JSON that kubeadm has printed since 1.30, or the table of those before
    (C(kubeadm alpha certs check-expiration) until 1.19). kubeadm reads the files of this host, so each control plane
    has an answer of its own, also while the API can't be reached. The certificates of kubelet are not among them,
    kubelet renews those itself.
  - Reads C(kubeadm token list), the JSON that kubeadm has printed since 1.17, or the table of those before. The secret
    halves of the tokens are left out, so the result may be logged. M(gpulab.kubernetes.kubeadm_join_info) returns a
    token in full.
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
    description: Time limit for each call of kubeadm in seconds.
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

- name: Warn of those that expire within a month
  ansible.builtin.fail:
    msg: "These expire soon, run kubeadm certs renew: {{ soon | map(attribute='name') | join(', ') }}"
  vars:
    soon: "{{ found.certificates | rejectattr('missing') | selectattr('days_left', 'lt', 30) }}"
  when: soon | length > 0

- name: Read which join tokens there are
  gpulab.kubernetes.kubeadm_info:
    gather: [tokens]
  register: found

- name: Name the tokens with which nodes can always join
  ansible.builtin.debug:
    msg: "{{ found.tokens | selectattr('lets_join') | selectattr('expires', 'none') | map(attribute='id') }}"
"""

RETURN = r"""
certificates:
  description: The certificates of this control plane and of its kubeconfigs, in the order of kubeadm.
  returned: with V(certificates) in O(gather)
  type: list
  elements: dict
  contains:
    name:
      description: Name, such as V(apiserver) or V(admin.conf).
      type: str
    expires:
      description: When it expires, in UTC. A table tells it to the minute. Null where it is missing.
      type: str
    days_left:
      description: Whole days until then, by kubeadm's own count, rounded down; negative for one that has expired. Null
        where it is missing.
      type: int
    ca:
      description: The CA that signed it. Null where kubeadm does not tell.
      type: str
    externally_managed:
      description: Whether its CA is managed outside of the cluster, so that kubeadm can't renew it. Null where it is
        missing.
      type: bool
    missing:
      description: Whether it does not exist. That is no fault by itself, C(super-admin.conf) exists on the first
        control plane alone.
      type: bool
  sample:
    - name: apiserver
      expires: "2027-11-21T09:30:00Z"
      days_left: 364
      ca: ca
      externally_managed: false
      missing: false
certificate_authorities:
  description: The CAs, in the order of kubeadm. Empty where kubeadm tells of none, as the first versions do.
  returned: with V(certificates) in O(gather)
  type: list
  elements: dict
  contains:
    name:
      description: Name, such as V(ca) or V(etcd-ca).
      type: str
    expires:
      description: As of a certificate.
      type: str
    days_left:
      description: As of a certificate. A table counts in years beyond one, the clock of this host then counts the days.
      type: int
    externally_managed:
      description: Whether kubeadm has no key of it. Null where it is missing.
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
  description: The bootstrap tokens, in the order of kubeadm.
  returned: with V(tokens) in O(gather)
  type: list
  elements: dict
  contains:
    id:
      description: The first six characters, which are no secret. They name the token's Secret, and
        C(kubeadm token delete) takes them.
      type: str
    description:
      description: What the token is for. Null for a token without one.
      type: str
    usages:
      description: What it may be used for, such as V(authentication) and V(signing).
      type: list
      elements: str
    groups:
      description: The groups that one who authenticates with it belongs to.
      type: list
      elements: str
    expires:
      description: When it expires, in UTC. Null for one that never does.
      type: str
    ttl:
      description: Seconds until then, 0 for one that has expired. Null for one that never does.
      type: int
    lets_join:
      description: Whether a worker can join with it now.
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
