#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_init
short_description: Initialize the first control plane of a cluster
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Runs C(kubeadm init) on a host that has no control plane yet, and does nothing if it has one.
  - Whether an earlier C(kubeadm init) ever finished is decided from several pieces of evidence, never from a single
    marker. The evidence is the response of the API server, the contents of etcd's files, admin.conf, kubelet.conf, the
    static pod manifests, the CA key, and a note that this module keeps in C(/var/lib/gpulab/kubeadm-init.json) during
    an init.
  - A cluster counts as alive as soon as C(kubeadm) has published it (ConfigMap C(cluster-info)), so that other hosts
    can join, or as soon as it has workloads. The API server is queried first. If it does not answer, the database and
    the log of etcd are searched for these objects, so for a cluster that was alive, the note alone never decides.
  - If the API server should exist and the kubelet is running, the module waits up to O(api_timeout) seconds for it, for
    example after a reboot.
  - "Decision table; the first match applies, if no restore of a backup was interrupted, which is an error:"
  - (1) No traces of a control plane, no kubelet.conf and no admin.conf - C(kubeadm init). An existing CA in
    C(/etc/kubernetes/pki) is used.
  - (2) No traces of a control plane, but kubelet.conf (a worker) or admin.conf (of another cluster) - error.
  - (3) The API answers and the cluster is alive - nothing to do. If an init on this host was interrupted before the
    addons were installed, it is run again on top of the existing state. The same applies if files of this init are
    empty, cut off or missing that kubeadm can make again, as after a power failure, and only kubeadm has used the
    cluster. If the addons are missing and other files are damaged - error, with the commands of a repair.
  - (4) The API answers, but neither it nor etcd's files contain a cluster that was alive, and kubelet.conf does not
    have its final form - the init never finished; it is cleaned up, then C(kubeadm init).
  - (5) The API answers but denies access, or its certificate is not from this cluster - error.
  - (6) The API does not answer, and etcd contains a cluster that was alive, or can't be read - error. If an init that
    began on this host did not finish, files of kubeadm or the kubelet's certificate are empty, cut off or missing, and
    only kubeadm has used the cluster - cleanup, then C(kubeadm init).
  - (7) The API does not answer, and etcd contains objects but no cluster that was alive - cleanup, then C(kubeadm
    init). If kubelet.conf has its final form - error.
  - (8) The API does not answer, etcd has no objects, but kubelet.conf has its final form or is damaged although the
    kubelet has a certificate, or etcd is on other hosts - error.
  - (9) The API does not answer, etcd has no objects, and an init began on this host, or the kubelet never got a
    certificate - cleanup, then C(kubeadm init).
  - (10) Anything else - error.
  - Only kubeadm has used a cluster if it has one node and no object of any kind that Kubernetes and C(kubeadm init) do
    not create themselves.
  - Etcd can't be read if its database is missing or empty and its first log was removed, if its keys do not have the
    default prefix, or if the manifest that names its directory is damaged and no init that began here has noted it.
  - If a control plane was alive once and is now unhealthy, the module fails with advice. It never initializes the
    control plane again and never resets it.
  - Cleanup means that the kubelet is stopped, C(/etc/kubernetes) and the data of etcd are moved to
    C(/var/lib/gpulab/aside-TIME), and C(kubeadm reset phase cleanup-node) removes the containers. The data of etcd is
    moved only after all containers have ended and their ports are free; otherwise the module fails. The contents that
    C(/etc/kubernetes) had before the first init are restored.
  - If another kubeadm is still running on the host, for example because its controller was killed, the module waits for
    it.
  - What kubeadm and the kubelet have written is on the disk when the module ends, so that it survives a power failure.
    If that fails or takes longer than two minutes, the module warns, and the next run tries it again. While the kernel
    waits for a disk that does not respond, the module can't end.
options:
  config:
    description:
      - Configuration of kubeadm in YAML, with InitConfiguration, ClusterConfiguration and so on.
      - It is passed to kubeadm in a file with mode 0600 in C(/run/gpulab), which is removed afterwards.
    type: str
    required: true
  ignore_preflight_errors:
    description: Preflight checks of C(kubeadm init) whose errors are treated as warnings.
    type: list
    elements: str
    default: []
  timeout:
    description: Time limit in seconds for C(kubeadm init), and for waiting until another running kubeadm has ended.
    type: int
    default: 900
  api_timeout:
    description: Seconds to wait for an API server that should exist.
    type: int
    default: 60
  cleanup_timeout:
    description:
      - Seconds to wait until the containers of an incomplete init have ended after C(kubeadm reset). After that time,
        they are removed a second time, with the same time limit.
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
      - Nothing is run. A host that would fail also fails in check mode.
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: gpulab.kubernetes.kubeadm_join_info
  - module: gpulab.kubernetes.kubeadm_join
"""

EXAMPLES = r"""
- name: Initialize the control plane
  gpulab.kubernetes.kubeadm_init:
    config: "{{ lookup('ansible.builtin.template', 'kubeadm.yaml.j2') }}"
"""

RETURN = r"""
initialized:
  description: Whether the host is now an initialized control plane. In check mode, the current state.
  returned: success
  type: bool
  sample: true
reason:
  description: Reason why the module acted or did nothing.
  returned: success
  type: str
  sample: the API answers and the cluster was published
evidence:
  description: Evidence found on the host before anything was done.
  returned: success, and if the module can't decide
  type: dict
  contains:
    admin_conf:
      description: Whether admin.conf exists.
      type: bool
    kubelet_conf:
      description: Whether kubelet.conf exists.
      type: bool
    bootstrap_conf:
      description: Whether bootstrap-kubelet.conf exists.
      type: bool
    kubelet_final:
      description: Whether kubelet.conf points to the kubelet's own certificate, as it does at the end of an init.
      type: bool
    kubelet_certificate:
      description: Whether the kubelet has its own certificate, or a link to it.
      type: bool
    manifests:
      description: Static pods of kubeadm that have a manifest.
      type: list
      elements: str
    ca_key:
      description: Whether the CA key exists.
      type: bool
    began:
      description: Whether an init began on this host and did not finish, as far as this module knows.
      type: bool
    etcd:
      description: >-
        Contents of etcd's files - V(absent), V(barren) (objects, but no cluster that was alive), V(unused) (a published
        cluster that only kubeadm has used), V(alive), V(unreadable), or V(unasked) if the API's answer was sufficient.
      type: str
    etcd_local:
      description: Whether etcd runs on this host.
      type: bool
    api:
      description: V(alive), V(barren), V(refused), V(silent), or V(unasked) if there is no admin.conf.
      type: str
    api_message:
      description: Response of the API server, or the reason why there is none.
      type: str
    complete:
      description: Whether the cluster has workloads. Determined only during an init.
      type: bool
    used:
      description: >-
        Whether the API may have objects that neither Kubernetes nor kubeadm made. Determined only during an init with
        damaged or missing files.
      type: bool
    damaged:
      description: >-
        Files of kubeadm and the kubelet that are empty or cut off, as after a power failure, or that are missing next
        to the kubelet.conf of a kubelet that does not run.
      type: list
      elements: str
    missing:
      description: Other files that C(kubeadm init) makes and that do not exist, except for the keys of CAs.
      type: list
      elements: str
moved_aside:
  description: Paths to which the remains of an incomplete init, or its damaged files, were moved.
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
