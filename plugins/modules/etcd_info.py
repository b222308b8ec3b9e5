#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_info
short_description: Read the members of etcd, their health, and how many may fail
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Asks the etcd that kubeadm set up on this control plane, with the host's certificates. The Kubernetes API is not
    needed.
  - Without a quorum, it returns the members as the one on this host knows them, and only that one's status.
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
  - gpulab.kubernetes.etcd
seealso:
  - module: gpulab.kubernetes.etcd_member
"""

EXAMPLES = r"""
- name: Read the members of etcd
  gpulab.kubernetes.etcd_info:
    etcdctl: /usr/local/lib/gpulab/etcd-3.6.8/etcdctl
  register: found

- name: Fail if etcd would not survive the failure of a member
  ansible.builtin.assert:
    that: found.may_fail > 0
"""

RETURN = r"""
members:
  description: All members, in etcd's order.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Id, hexadecimal as in C(etcdctl member list).
      type: str
    name:
      description: Name, which is the node's name with kubeadm. Empty until the member has started.
      type: str
    peer_urls:
      description: URLs for the other members.
      type: list
      elements: str
    client_urls:
      description: URLs for clients. Empty until the member has started.
      type: list
      elements: str
    learner:
      description: Whether it only receives the data and has no vote yet.
      type: bool
    health:
      description: V(healthy), V(unhealthy), V(unknown) or V(unstarted). A healthy voter answers with a quorum.
      type: str
    why:
      description: Why it is not healthy.
      type: str
    alarms:
      description: Its alarms, such as V(NOSPACE) (no writes until space is made) or V(CORRUPT).
      type: list
      elements: str
    leader:
      description: Whether it is the leader.
      type: bool
    status:
      description: What it reports about itself. Null if it was not asked or does not answer.
      type: dict
      contains:
        version:
          description: Version of the server.
          type: str
        db_size:
          description: Size of the database in bytes.
          type: int
        db_size_in_use:
          description: Bytes of the database that contain data.
          type: int
        raft_index:
          description: Index of the last entry of the log that is committed.
          type: int
        raft_applied_index:
          description: Index of the last entry that is applied.
          type: int
        raft_term:
          description: Number of the leader's term.
          type: int
  sample:
    - id: fac14e856b03e641
      name: cp1
      peer_urls: ["https://192.0.2.11:2380"]
      client_urls: ["https://192.0.2.11:2379"]
      learner: false
      health: healthy
      why: ""
      alarms: []
      leader: true
      status:
        version: 3.6.8
        db_size: 20480
        db_size_in_use: 16384
        raft_index: 12
        raft_applied_index: 12
        raft_term: 2
voters:
  description: Number of members that vote.
  returned: success
  type: int
  sample: 3
healthy:
  description: Number of healthy voters.
  returned: success
  type: int
  sample: 3
quorum:
  description: Number of healthy voters that etcd needs.
  returned: success
  type: int
  sample: 2
has_quorum:
  description: Whether etcd has a quorum. Without it, nothing can be written.
  returned: success
  type: bool
  sample: true
may_fail:
  description: Number of healthy voters that may fail without stopping etcd.
  returned: success
  type: int
  sample: 1
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._etcd.client import OPTIONS, Etcd, facts, tolerance
from ..module_utils._etcd.quorum import standing
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    members = Etcd(module).members()
    return {"members": [facts(each) for each in members], **tolerance(standing(members))}


def main() -> None:
    run(AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True), run_module)


if __name__ == "__main__":
    main()
