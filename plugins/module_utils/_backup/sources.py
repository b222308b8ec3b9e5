# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect what a control plane is restored from, except for etcd's snapshot."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from .._command import CommandError, Runner
from .._errors import DomainError
from .._files import put_file, read_file, read_text, under
from .._json import as_mapping, as_text, read_object
from .._kubeadm.x509 import begins, certificates, public_key_hash
from .manifest import CONFIGURATION, ENCRYPTION, PKI, RECORD, is_cluster_name, is_part

_PKI = "/etc/kubernetes/pki"
_API_SERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"
_ADMIN = "/etc/kubernetes/admin.conf"
_CLUSTER = "/var/lib/gpulab/cluster.json"
# The configuration that was read last, in case that the API does not answer.
_LAST_CONFIGURATION = "/var/lib/gpulab/kubeadm-config.yaml"
_CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
_FLAG = re.compile(r"""^\s*-\s*["']?--encryption-provider-config=([^\s"']+)""", re.MULTILINE)
_VERSION = re.compile(r"""^kubernetesVersion:[ \t]*["']?v?([0-9][0-9A-Za-z.-]*)""", re.MULTILINE)
_NAME = re.compile(r"""^clusterName:[ \t]*["']?([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)["']?[ \t]*$""", re.MULTILINE)
_DEFAULT_NAME = "kubernetes"
# How long an API server may take to answer, and the time between two questions, in seconds.
_STARTING, _PAUSE = 60.0, 1.0
_NEVER_EMPTY = (".crt", ".key", ".pub", ".yaml")


def files(module: Any, root: str = "/") -> dict[str, bytes]:
    """Return the files of a backup by their names in the archive. Raise DomainError if one can't be read."""
    found = {CONFIGURATION: _configuration(module, root).encode("utf-8", "surrogateescape")}
    directory = under(root, _PKI)
    for path in sorted(directory.rglob("*")):
        name = f"{PKI}{path.relative_to(directory)}"
        # Other names are those of editors and of programs that are writing a file.
        if is_part(name) and path.is_file():
            found[name] = _content(path)
    flag = _FLAG.search(read_text(under(root, _API_SERVER)) or "")
    if flag:
        found[ENCRYPTION] = _content(under(root, flag.group(1)))
    record = read_file(under(root, _CLUSTER)) or b""
    # One that a power failure has damaged is left out: nothing writes it again, and backups must go on.
    if _recorded_name(record):
        found[f"{RECORD}cluster.json"] = record
    return found


def authority(found: dict[str, bytes]) -> str:
    """Return kubeadm's hash of the cluster's CA."""
    return public_key_hash(certificates(found.get(f"{PKI}ca.crt", b"").decode("ascii", "replace"))[0])


def beginning(root: str) -> float:
    """Return when the cluster's CA was created, in seconds since 1970. Raise DomainError."""
    text = read_text(under(root, f"{_PKI}/ca.crt")) or ""
    return begins(certificates(text)[0]).timestamp()


def kubernetes_version(found: dict[str, bytes]) -> str:
    """Return the version in kubeadm's configuration, for example 1.36.5. Raise DomainError."""
    version = _VERSION.search(_text(found[CONFIGURATION]))
    if not version:
        raise DomainError("Error while reading kubeadm's configuration: it has no kubernetesVersion")
    return version.group(1)


def cluster_name(found: dict[str, bytes]) -> str:
    """Return the name that the collection, else kubeadm, has recorded for the cluster."""
    configured = _NAME.search(_text(found[CONFIGURATION]))
    recorded = _recorded_name(found.get(f"{RECORD}cluster.json", b""))
    return recorded or (configured.group(1) if configured else _DEFAULT_NAME)


def _recorded_name(record: bytes) -> str:
    """Return the name of the cluster in its record, empty if the record is damaged."""
    try:
        name = as_text(as_mapping(json.loads(record)).get("name"))
    except (ValueError, RecursionError):
        return ""
    return name if is_cluster_name(name) else ""


def _configuration(module: Any, root: str) -> str:
    """Return kubeadm's ClusterConfiguration, the last known one if the API does not answer.

    If none is known, an API server that has just started has time to answer. Until its roles are loaded, everything is
    forbidden.
    """
    last, deadline = under(root, _LAST_CONFIGURATION), time.monotonic() + _STARTING
    while True:
        try:
            text = _stored_configuration(module, root)
            break
        except CommandError:
            if known := read_text(last):
                return known
            if time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE)
    if read_text(last) != text:
        put_file(last, text.encode("utf-8", "surrogateescape"), 0o600)
    return text


def _stored_configuration(module: Any, root: str) -> str:
    argv = ["kubectl", f"--kubeconfig={under(root, _ADMIN)}", "--request-timeout=10s", "get", "--raw", _CONFIG_MAP]
    answer = Runner(module).check(argv, "reading kubeadm's configuration from the API", timeout=30).stdout
    text = as_text(as_mapping(read_object(answer, "kubeadm's configuration").get("data")).get("ClusterConfiguration"))
    if not text.strip():
        raise DomainError("Error while reading kubeadm's configuration from the API: it is empty")
    return text


def _content(path: Path) -> bytes:
    content = read_file(path)
    # Others may be empty, such as the index of a CA of the administrator.
    if content is None or (not content and path.suffix in _NEVER_EMPTY):
        raise DomainError(
            f"Error while reading {path} for the backup: it is {'missing' if content is None else 'empty'}"
        )
    return content


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
