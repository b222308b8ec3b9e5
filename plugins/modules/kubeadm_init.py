#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_init
short_description: Make sure that this host is an initialised first control plane
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Runs C(kubeadm init) on a host that has no control plane yet, and nothing on one that has.
  - Whether an earlier C(kubeadm init) ever finished is decided from evidence, never from one marker. The evidence is
    the answer of the API server, what the files of etcd hold, admin.conf, kubelet.conf, the static pod manifests, the
    CA key, and a note that this module keeps in C(/var/lib/gpulab/kubeadm-init.json) while an init is under way.
  - A cluster counts as alive once C(kubeadm) has published it (ConfigMap C(cluster-info)), which is what lets
    others join, or once it holds workloads. The API server is asked first. When it does not answer, the database and
    the log of etcd are searched for these objects, so the note alone never decides about a cluster that was alive.
  - An API server that should be there, on a host whose kubelet is running, is given O(api_timeout) seconds to come up,
    for example after a reboot.
  - "The decision table, first match wins:"
  - (1) Nothing of a control plane, and no kubelet.conf and no admin.conf - C(kubeadm init). A CA in
    C(/etc/kubernetes/pki) that was put there beforehand is used.
  - (2) Nothing of a control plane, but kubelet.conf (a worker) or admin.conf (of another cluster) - error.
  - (3) The API answers and the cluster is alive - nothing to do. If an init that began here was interrupted before
    the addons were installed, it is run again over what is there.
  - (4) The API answers, and neither it nor the files of etcd know of a living cluster - the init never finished;
    it is cleared away, then C(kubeadm init).
  - (5) The API answers, but refuses, or its certificate is not of this cluster - error.
  - (6) The API is silent, and etcd holds a living cluster, or can't be read - error.
  - (7) The API is silent, and etcd holds objects but no living cluster - cleared away, then C(kubeadm init).
  - (8) The API is silent, no objects of etcd, but kubelet.conf has its final form, or etcd is on other hosts - error.
  - (9) The API is silent, no objects of etcd, and an init began here, or the kubelet never got a certificate - cleared
    away, then C(kubeadm init).
  - (10) Anything else - error.
  - A control plane that was alive once gets an error with advice when it is ill. It is never initialised again and
    never reset.
  - Clearing away means that the kubelet is stopped, that C(/etc/kubernetes) and the data of etcd are moved to
    C(/var/lib/gpulab/aside-TIME), and that C(kubeadm reset phase cleanup-node) removes the containers. The data of
    etcd are moved only when all containers have ended and their ports are free, else there is an error. What lay in
    C(/etc/kubernetes) before the first init is put back.
  - When another kubeadm is still at work on the host, such as one whose controller was killed, it is waited for.
options:
  config:
    description:
      - The configuration for kubeadm in YAML, with InitConfiguration, ClusterConfiguration and so on.
      - It is given to kubeadm in a file of mode 0600 below C(/run/gpulab), which is removed afterwards.
    type: str
    required: true
  ignore_preflight_errors:
    description: Preflight checks of C(kubeadm init) whose errors are only warnings.
    type: list
    elements: str
    default: []
  timeout:
    description: Time limit for C(kubeadm init) in seconds, also for another kubeadm that is waited for.
    type: int
    default: 900
  api_timeout:
    description: How long an API server that should be there is waited for, in seconds.
    type: int
    default: 60
  cleanup_timeout:
    description:
      - How long the containers of an init that never finished may take to end after C(kubeadm reset), in seconds. Then
        they are removed a second time, and given the same time again.
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
      - Nothing is run. A host that would get an error gets it in check mode as well.
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: gpulab.kubernetes.kubeadm_join_info
  - module: gpulab.kubernetes.kubeadm_join
"""

EXAMPLES = r"""
- name: Initialise the control plane
  gpulab.kubernetes.kubeadm_init:
    config: "{{ lookup('ansible.builtin.template', 'kubeadm.yaml.j2') }}"
"""

RETURN = r"""
initialized:
  description: Whether the host is an initialised control plane now. In check mode it tells the state that was found.
  returned: success
  type: bool
  sample: true
reason:
  description: Why the module did what it did, or did nothing.
  returned: success
  type: str
  sample: the API answers and the cluster was published
evidence:
  description: What was found on the host before anything was done.
  returned: success, and when only a person can decide
  type: dict
  contains:
    admin_conf:
      description: Whether there is an admin.conf.
      type: bool
    kubelet_conf:
      description: Whether there is a kubelet.conf.
      type: bool
    bootstrap_conf:
      description: Whether there is a bootstrap-kubelet.conf.
      type: bool
    kubelet_final:
      description: Whether kubelet.conf points to the kubelet's own certificate, as it does at the end of an init.
      type: bool
    kubelet_certificate:
      description: Whether the kubelet has a certificate of its own.
      type: bool
    manifests:
      description: The static pods of kubeadm that have a manifest.
      type: list
      elements: str
    ca_key:
      description: Whether the key of the CA is there.
      type: bool
    began:
      description: Whether an init began here that this module has not seen the end of.
      type: bool
    etcd:
      description: >-
        What the files of etcd hold - V(absent), V(barren) (objects, but no living cluster), V(alive), V(unreadable), or
        V(unasked) when the API told enough.
      type: str
    etcd_local:
      description: Whether etcd runs on this host.
      type: bool
    api:
      description: V(alive), V(barren), V(refused), V(silent), or V(unasked) when there was no admin.conf to ask with.
      type: str
    api_message:
      description: What the API server said, or why it said nothing.
      type: str
    complete:
      description: Whether the cluster has workloads. Only found out while an init is under way.
      type: bool
moved_aside:
  description: Where the remains of an init that never finished lie now.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/gpulab/aside-20261120T210001.000000Z/var/lib/etcd/member]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.kubeadm_init import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
