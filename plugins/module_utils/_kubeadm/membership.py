# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the cluster that a host belongs to from kubeadm's files."""

from __future__ import annotations

import base64
import json
import re
import textwrap
from typing import Any

from .._files import printable, text_or_nothing, under
from .._host.hosts_file import PATH as HOSTS
from .._host.hosts_file import block_names
from .._json import as_mapping, as_text
from . import join_record
from .damage import KUBELET_CERTIFICATE, KUBELET_CONFIGURATION, PKI, damaged_files, kubelet_runs, necessary
from .kubeconfig import KubeconfigError, endpoint, host_port, read_kubeconfig
from .x509 import CertificateError, alternative_names, certificates, common_name, public_key_hash

_NODE = "system:node:"
# The names of the cluster and of its API when this host became a part of it, written by the role kubeadm.
RECORD = "/var/lib/gpulab/cluster.json"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_RECORDED = {"name": re.compile(_LABEL, re.ASCII), "api_name": re.compile(rf"{_LABEL}(?:\.{_LABEL})+", re.ASCII)}
# Where kubeadm records the kubelet's container runtime; the host's own file first, then those of older releases.
_RUNTIME = (
    ("/var/lib/kubelet/instance-config.yaml", r"^containerRuntimeEndpoint:[ \t]*[\"']?([^\s\"'#]+)"),
    ("/var/lib/kubelet/kubeadm-flags.env", r"--container-runtime-endpoint=([^\s\"']+)"),
    ("/var/lib/kubelet/config.yaml", r"^containerRuntimeEndpoint:[ \t]*[\"']?([^\s\"'#]+)"),
)
_LARGEST_KUBELET = 64 * 1024
_TRACES_OF_KUBEADM = ("/etc/kubernetes/bootstrap-kubelet.conf", KUBELET_CONFIGURATION)


def membership(root: str) -> dict[str, Any]:
    """Return the host's cluster and kubeadm's progress; unknown texts are empty.

    ``endpoint`` is the cluster's, as host:port; the kubelet of a control plane has its own address instead. ``ca``
    is the PEM text of the cluster's CAs, and ``ca_hashes`` have kubeadm's form. ``api_server_names`` are those in
    the certificate of a control plane's API server. ``kubelet_configuration`` is the text of its file, which is
    changed and written back, empty if it is damaged. ``joining``: it is becoming a control plane, next to others.
    ``damaged`` are files without which the host can't start, and that are empty, cut off, or missing next to
    kubelet.conf. Until a kubelet runs, they are those of an interrupted kubeadm.
    """
    etc = under(root, "/etc/kubernetes")
    admin, kubelet, api_server, ca_key = (
        (etc / name).exists() for name in ("admin.conf", "kubelet.conf", "manifests/kube-apiserver.yaml", "pki/ca.key")
    )
    # Only ``kubeadm init`` writes these files. It writes kubelet.conf long before its end, ``kubeadm join`` at its end.
    control_plane = admin or api_server or ca_key
    complete = admin and api_server and under(root, "/var/lib/etcd/member").exists()
    begun = any(under(root, path).exists() for path in _TRACES_OF_KUBEADM)
    # A worker may have a copy of admin.conf.
    damaged = necessary(damaged_files(root, api_server or ca_key))
    interrupted = bool(damaged) and not kubelet_runs(root)
    authorities = _certificates(text_or_nothing(root, "/etc/kubernetes/pki/ca.crt"))
    hashes = [public_key_hash(certificate) for certificate in authorities]
    record = join_record.read(root)
    joining = bool(control_plane and record and record.makes_control_plane(hashes))
    server = _server(text_or_nothing(root, "/etc/kubernetes/kubelet.conf"))
    administrator = _server(text_or_nothing(root, "/etc/kubernetes/admin.conf"))
    return {
        "admin_conf": admin,
        "kubelet_conf": kubelet,
        "role": "control_plane" if control_plane else "worker" if kubelet else "",
        "begun": control_plane or kubelet or begun,
        "joining": joining,
        "finished": kubelet and (complete or not control_plane) and not interrupted and not joining,
        "damaged": list(damaged),
        "ca_hashes": hashes,
        "api_server_names": _api_server_names(root),
        "ca": "".join(_pem(certificate) for certificate in authorities),
        "server": server,
        "endpoint": _endpoint(administrator if control_plane else server),
        **recorded_names(text_or_nothing(root, RECORD)),
        "node_name": node_name(text_or_nothing(root, KUBELET_CERTIFICATE)),
        "container_runtime": _container_runtime(root),
        "kubelet_configuration": "" if KUBELET_CONFIGURATION in damaged else _kubelet_configuration(root),
    }


def _kubelet_configuration(root: str) -> str:
    """Return the text, empty if it could not be returned as it is."""
    text = text_or_nothing(root, KUBELET_CONFIGURATION)
    return text if len(text) <= _LARGEST_KUBELET and printable(text) == text else ""


def node_name(pem: str) -> str:
    """Return the name under which the kubelet is registered in its cluster."""
    try:
        name = common_name(certificates(pem)[0]) if pem else None
    except CertificateError:
        return ""
    return name[len(_NODE) :] if name and name.startswith(_NODE) else ""


def _container_runtime(root: str) -> str:
    for path, pattern in _RUNTIME:
        found = re.search(pattern, text_or_nothing(root, path), re.MULTILINE)
        if found:
            return found[1]
    return ""


def _certificates(pem: str) -> list[bytes]:
    """Return the certificates in DER, none if one of them can't be read."""
    try:
        found = certificates(pem)
        return found if all(public_key_hash(certificate) for certificate in found) else []
    except CertificateError:
        return []


def _api_server_names(root: str) -> list[str]:
    try:
        return alternative_names(certificates(text_or_nothing(root, f"{PKI}/apiserver.crt"))[0])
    except CertificateError:
        return []


def _pem(certificate: bytes) -> str:
    body = "\n".join(textwrap.wrap(base64.b64encode(certificate).decode(), 64))
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"


def _endpoint(server: str) -> str:
    return host_port(*endpoint(server)) if server else ""


def recorded_names(text: str) -> dict[str, str]:
    """Return the names of a cluster (``name``) and of its API (``api_name``) in a record, empty if unknown."""
    try:
        record = as_mapping(json.loads(text))
    except (ValueError, RecursionError):
        record = {}
    found = {key: as_text(record.get(key)) for key in _RECORDED}
    return {key: name if _RECORDED[key].fullmatch(name) else "" for key, name in found.items()}


def lost_name(root: str, server: str) -> str:
    """Return the name of the API in a URL that the host has recorded and lost from /etc/hosts, empty if it has not."""
    name = recorded_names(text_or_nothing(root, RECORD))["api_name"]
    is_lost = name not in block_names(text_or_nothing(root, HOSTS))
    return name if name and is_lost and endpoint(server)[0] == name else ""


def _server(text: str) -> str:
    try:
        return read_kubeconfig(text).server if text else ""
    except KubeconfigError:
        return ""
