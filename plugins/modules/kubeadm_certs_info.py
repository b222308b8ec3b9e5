#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_certs_info
short_description: Read when the certificates of this control plane expire
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads C(kubeadm certs check-expiration), the JSON that kubeadm has printed since 1.30, or the table of those before
    (C(kubeadm alpha certs check-expiration) until 1.19).
  - kubeadm looks at the files of this host, so each control plane has an answer of its own. It works without a
    reachable API as well.
  - The certificates of kubelet are not among them, kubelet renews those itself.
options:
  executable:
    description: Name or path of kubeadm.
    type: str
    default: kubeadm
  kubeconfig:
    description: Kubeconfig with which kubeadm reads the configuration of the cluster.
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
  gpulab.kubernetes.kubeadm_certs_info:
  register: found

- name: Warn of those that expire within a month
  ansible.builtin.fail:
    msg: "These expire soon, run kubeadm certs renew: {{ soon | map(attribute='name') | join(', ') }}"
  vars:
    soon: "{{ found.certificates | rejectattr('missing') | selectattr('days_left', 'lt', 30) }}"
  when: soon | length > 0
"""

RETURN = r"""
certificates:
  description: The certificates of this control plane and of its kubeconfigs, in the order of kubeadm.
  returned: success
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
  returned: success
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
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubeadm.info import certs_info
from ..module_utils._kubeadm.run import Kubeadm
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    kubeadm = Kubeadm(module, module.params["executable"], module.params["timeout"])
    return certs_info(kubeadm, module.params["kubeconfig"])


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "executable": {"type": "str", "default": "kubeadm"},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
