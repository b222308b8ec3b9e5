# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to renew certificates of the control plane. Pure.

Kubernetes' documentation, Certificate Management with kubeadm: the kubelet stops a static pod while its manifest is
missing, and checks the directory at least every 20 seconds.
"""

from __future__ import annotations

from collections.abc import Collection

from ...module_utils._acceptance.problems import SITE

_ALL = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# Name in kubeadm -> static pods that read the certificate at startup. Administrators' kubeconfigs are read by
# short-lived programs, and so is etcd's client certificate for health checks.
_READERS: dict[str, tuple[str, ...]] = {
    "admin.conf": (),
    "super-admin.conf": (),
    "apiserver": ("kube-apiserver",),
    "apiserver-etcd-client": ("kube-apiserver",),
    "apiserver-kubelet-client": ("kube-apiserver",),
    "front-proxy-client": ("kube-apiserver",),
    "controller-manager.conf": ("kube-controller-manager",),
    "scheduler.conf": ("kube-scheduler",),
    "etcd-healthcheck-client": (),
    "etcd-peer": ("etcd",),
    "etcd-server": ("etcd",),
}
_KUBERNETES = "/etc/kubernetes/"


def renewal(host: str, names: Collection[str]) -> str:
    """Return how to renew the certificates with these names on the control plane ``host``."""
    which = next(iter(names)) if len(names) == 1 else "all"
    pods = sorted({pod for name in names for pod in _READERS.get(name, _ALL)})
    parts = [f"On {host}: sudo kubeadm certs renew {which}."]
    if pods:
        parts.append(f"Then restart the static pods that use it: {restart(pods)}.")
    if "admin.conf" in names:
        parts.append(f"Then save the new kubeconfig: {SITE}. Give it to everyone who has a copy of the old one.")
    return " ".join(parts)


def restart(pods: Collection[str]) -> str:
    """Return the command that restarts these static pods."""
    files = next(iter(pods)) if len(pods) == 1 else f"{{{','.join(pods)}}}"
    there, aside = f"{_KUBERNETES}manifests/{files}.yaml", f"{_KUBERNETES}{files}.yaml"
    return f"sudo mv {there} {_KUBERNETES} && sleep 30 && sudo mv {aside} {_KUBERNETES}manifests/"
