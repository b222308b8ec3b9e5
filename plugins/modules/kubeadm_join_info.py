#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_join_info
short_description: Get the data with which a host can join the cluster of this control plane
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns the endpoint, a valid token and the CA hashes for C(kubeadm join).
  - Reuses a bootstrap token that lets workers join and is valid for long enough. kubeadm can't print the join command
    of an existing token, so in this case, the endpoint and the hashes are read from O(kubeconfig), which contains the
    cluster's C(controlPlaneEndpoint).
  - Otherwise creates a token and reads the output of C(kubeadm token create --print-join-command), in any format since
    kubeadm 1.9.
  - The result contains secrets, so set C(no_log) on the task. Error messages and warnings contain masked secrets, so
    you can show them (see the examples).
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
    description: Lifetime of a new token, as a Go duration.
    type: str
    default: 1h
  reuse:
    description: Whether a valid token may be reused.
    type: bool
    default: true
  min_life:
    description: Minimum remaining lifetime in seconds of a token that is reused.
    type: int
    default: 600
  control_plane:
    description:
      - Whether the host will join as an additional control plane.
      - The certificates of the control plane are then uploaded to the cluster with a new key, for two hours.
    type: bool
    default: false
  pki:
    description:
      - Whether to return the CAs and keys that all control planes of the cluster share, so that they reach a further
        control plane through the controller. Nothing is uploaded to the cluster.
    type: bool
    default: false
    version_added: 0.3.0
  description:
    description: Description of a new token.
    type: str
    default: made by gpulab.kubernetes
  delete:
    description:
      - ID of a bootstrap token (its first six characters) that is deleted. Nothing else is done or returned.
      - If that fails, the module warns, because tokens expire.
    type: str
    version_added: 0.3.0
  timeout:
    description: Time limit in seconds for each call of kubeadm.
    type: int
    default: 120
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
    details:
      - On a host that is not a control plane yet, a change is predicted, and unknown values are null.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - With O(control_plane) or without O(reuse), every run creates something new.
"""

EXAMPLES = r"""
- name: Get a token for the workers
  gpulab.kubernetes.kubeadm_join_info:
  no_log: true
  register: join_info
  failed_when: false

- name: Show the reason for a failure, which no_log hides
  ansible.builtin.fail:
    msg: "{{ join_info.msg }}"
  when: join_info.msg is defined
"""

RETURN = r"""
api_endpoint:
  description: Address of the cluster's API.
  returned: success
  type: dict
  contains:
    host:
      description: Name or address. An IPv6 address has no brackets. Null in check mode if not known yet.
      type: str
    port:
      description: Port. Null in check mode if not known yet.
      type: int
  sample: {host: 10.0.0.10, port: 6443}
token:
  description: Bootstrap token, a secret. Null in check mode if a new one would be created.
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
  description: Certificates of the cluster's CAs in PEM format. Null in check mode if not known yet.
  returned: success
  type: str
  version_added: 0.2.0
certificate_key:
  description: Key of the uploaded certificates, a secret. Null without O(control_plane), and in check mode.
  returned: success
  type: str
pki:
  description:
    - Texts of the CAs and keys by path, secrets. Empty without O(pki), and in check mode.
  returned: success
  type: dict
  version_added: 0.3.0
control_plane:
  description: The value of O(control_plane).
  returned: success
  type: bool
expires:
  description: Expiry time of the token in UTC. Null if it never expires or is unknown.
  returned: success
  type: str
  sample: "2026-11-21T09:30:00Z"
reused:
  description: Whether the token already existed.
  returned: success
  type: bool
unsafe_skip_ca_verification:
  description: Whether the join command skips the verification of the CA.
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
    info = JoinInfo(module, params["executable"], params["kubeconfig"], params["timeout"], params["root"])
    if params["delete"]:
        return info.delete(params["delete"])
    wanted = Wanted(
        params["ttl"],
        params["reuse"],
        params["min_life"],
        params["control_plane"],
        params["pki"],
        params["description"],
    )
    return info.facts(wanted)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "executable": {"type": "str", "default": "kubeadm"},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "ttl": {"type": "str", "default": "1h"},
            "reuse": {"type": "bool", "default": True},
            "min_life": {"type": "int", "default": 600},
            "control_plane": {"type": "bool", "default": False},
            "pki": {"type": "bool", "default": False},
            "root": {"type": "path", "default": "/"},
            "description": {"type": "str", "default": "made by gpulab.kubernetes"},
            "delete": {"type": "str"},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
