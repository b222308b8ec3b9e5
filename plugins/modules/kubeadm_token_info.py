#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_token_info
short_description: List the bootstrap tokens of the cluster of this control plane
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads C(kubeadm token list), the JSON that kubeadm has printed since 1.17, or the table of those before.
  - The secret halves of the tokens are left out, so the result may be logged. M(gpulab.kubernetes.kubeadm_join_info)
    returns a token in full.
options:
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
- name: Read which join tokens there are
  gpulab.kubernetes.kubeadm_token_info:
  register: found

- name: Say which of them let a node join for ever
  ansible.builtin.debug:
    msg: "{{ found.tokens | selectattr('lets_join') | selectattr('expires', 'none') | map(attribute='id') }}"
"""

RETURN = r"""
tokens:
  description: The bootstrap tokens, in the order of kubeadm.
  returned: success
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

from ..module_utils._kubeadm.info import token_info
from ..module_utils._kubeadm.run import Kubeadm
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    kubeadm = Kubeadm(module, module.params["executable"], module.params["timeout"])
    return token_info(kubeadm, module.params["kubeconfig"])


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
