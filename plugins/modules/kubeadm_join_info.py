#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_join_info
short_description: Get what a host needs to join the cluster of this control plane
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns the endpoint, a valid token and the CA hashes for C(kubeadm join).
  - A bootstrap token that workers can join with, and that has enough life left, is used again. kubeadm can't print the
    join command of such a token, so the endpoint and the hashes then come from O(kubeconfig), which names the cluster's
    C(controlPlaneEndpoint).
  - Otherwise a token is made, and the output of C(kubeadm token create --print-join-command) is read, in any form that
    kubeadm printed since 1.9.
  - The result holds secrets. Set C(no_log) on the task. Error messages and warnings show the line that they are about
    with its secrets masked, so they may be repeated (see the examples).
options:
  executable:
    description: Name or path of kubeadm.
    type: str
    default: kubeadm
  kubeconfig:
    description: Kubeconfig of an administrator of the cluster.
    type: path
    default: /etc/kubernetes/admin.conf
  ttl:
    description: How long a new token is valid, as one of Go's durations.
    type: str
    default: 1h
  reuse:
    description: Whether a valid token may be used again.
    type: bool
    default: true
  min_life:
    description: How long a token must still be valid to be used again, in seconds.
    type: int
    default: 600
  control_plane:
    description:
      - Whether the host is to join as a further control plane.
      - The certificates of the control plane are then uploaded to the cluster, under a new key, for two hours.
    type: bool
    default: false
  description:
    description: Description of a new token.
    type: str
    default: made by gpulab.kubernetes
  timeout:
    description: Time limit for each call of kubeadm in seconds.
    type: int
    default: 120
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details:
      - On a host that is no control plane yet it predicts a change, and what isn't known is null.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - With O(control_plane) or without O(reuse) every run makes something new.
"""

EXAMPLES = r"""
- name: Get a token for the workers
  gpulab.kubernetes.kubeadm_join_info:
  no_log: true
  register: join_info
  failed_when: false

- name: Tell why there is none, which no_log has hidden
  ansible.builtin.fail:
    msg: "{{ join_info.msg }}"
  when: join_info.msg is defined
"""

RETURN = r"""
api_endpoint:
  description: Where the API of the cluster is reached.
  returned: success
  type: dict
  contains:
    host:
      description: Name or address, an IPv6 address without brackets. Null in check mode when not known yet.
      type: str
    port:
      description: Port. Null in check mode when not known yet.
      type: int
  sample: {host: 10.0.0.10, port: 6443}
token:
  description: The bootstrap token, a secret. Null in check mode when a new one would be made.
  returned: success
  type: str
  sample: abcdef.0123456789abcdef
ca_cert_hashes:
  description: Hashes of the public keys of the cluster's CAs.
  returned: success
  type: list
  elements: str
  sample: ["sha256:7c2e69131a36ae2a042a339b33381c6d0d43887e2de83720eff5359e26aec866"]
ca_certificates:
  description: The certificates of the cluster's CAs, in PEM. Null in check mode when not known yet.
  returned: success
  type: str
  version_added: 0.2.0
certificate_key:
  description: The key of the uploaded certificates, a secret. Null without O(control_plane), and in check mode.
  returned: success
  type: str
control_plane:
  description: The value of O(control_plane).
  returned: success
  type: bool
expires:
  description: When the token expires, in UTC. Null for a token that never does, and when not known.
  returned: success
  type: str
  sample: "2026-11-21T09:30:00Z"
reused:
  description: Whether the token was there already.
  returned: success
  type: bool
unsafe_skip_ca_verification:
  description: Whether the join command tells not to verify the CA.
  returned: success
  type: bool
  sample: false
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._kubeadm.join_info import JoinInfo, Wanted
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    wanted = Wanted(params["ttl"], params["reuse"], params["min_life"], params["control_plane"], params["description"])
    return JoinInfo(module, params["executable"], params["kubeconfig"], params["timeout"]).facts(wanted)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "executable": {"type": "str", "default": "kubeadm"},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "ttl": {"type": "str", "default": "1h"},
            "reuse": {"type": "bool", "default": True},
            "min_life": {"type": "int", "default": 600},
            "control_plane": {"type": "bool", "default": False},
            "description": {"type": "str", "default": "made by gpulab.kubernetes"},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
