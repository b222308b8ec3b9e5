# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster that a host belongs to, by what kubeadm left on it."""

from __future__ import annotations

from typing import Any

from .._files import text_or_nothing, under
from .kubeconfig import KubeconfigError, read_kubeconfig
from .x509 import CertificateError, certificates, public_key_hash

_TRACES_OF_KUBEADM = ("/etc/kubernetes/bootstrap-kubelet.conf", "/var/lib/kubelet/config.yaml")


def membership(root: str) -> dict[str, Any]:
    """Which cluster, and how far kubeadm came. ``ca_hashes`` as kubeadm join's."""
    etc = under(root, "/etc/kubernetes")
    admin, kubelet, api_server, ca_key = (
        (etc / name).exists() for name in ("admin.conf", "kubelet.conf", "manifests/kube-apiserver.yaml", "pki/ca.key")
    )
    # Only kubeadm init writes these; it writes kubelet.conf long before it is done, kubeadm join when it is.
    control_plane = admin or api_server or ca_key
    complete = admin and api_server and under(root, "/var/lib/etcd/member").exists()
    begun = any(under(root, path).exists() for path in _TRACES_OF_KUBEADM)
    return {
        "admin_conf": admin,
        "kubelet_conf": kubelet,
        "role": "control_plane" if control_plane else "worker" if kubelet else "",
        "begun": control_plane or kubelet or begun,
        "finished": kubelet and (complete or not control_plane),
        "ca_hashes": _ca_hashes(text_or_nothing(root, "/etc/kubernetes/pki/ca.crt")),
        "server": _server(text_or_nothing(root, "/etc/kubernetes/kubelet.conf")),
    }


def _ca_hashes(pem: str) -> list[str]:
    try:
        return [public_key_hash(certificate) for certificate in certificates(pem)]
    except CertificateError:
        return []


def _server(text: str) -> str:
    try:
        return read_kubeconfig(text).server if text else ""
    except KubeconfigError:
        return ""
