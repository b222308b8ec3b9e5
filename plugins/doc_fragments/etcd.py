# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    # Of modules that ask etcd on a control plane (OPTIONS in plugins/module_utils/_etcd/client.py).
    DOCUMENTATION = r"""
options:
  endpoint:
    description: Client URL of the member on this host.
    type: str
    default: https://127.0.0.1:2379
  pki:
    description: >-
      Directory with C(ca.crt) and the certificate and key of a client, C(healthcheck-client) or else C(server), as
      kubeadm creates them.
    type: path
    default: /etc/kubernetes/pki/etcd
  etcdctl:
    description: Name or path of etcdctl. Its version should be that of the server (3.6 or newer).
    type: str
    default: etcdctl
  timeout:
    description: >-
      Time limit in seconds for a member to answer. Members that are down cost this time once, all together; a lost
      quorum costs it once more.
    type: int
    default: 3
requirements:
  - etcdctl (the entry point C(tools) of the role P(gpulab.kubernetes.etcd#role) installs it)
"""
