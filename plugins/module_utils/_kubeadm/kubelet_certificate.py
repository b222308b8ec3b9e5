# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace an expired client certificate of the kubelet, which can't renew it itself any more.

A control plane signs a new one with the CA's key: its API server can't answer before its kubelet runs. A worker gets a
bootstrap token, with which its kubelet requests one, as it did when the host joined.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .._command import CommandError, Runner
from .._errors import DomainError
from .._files import put_file, read_text, sync_path, under
from .damage import KUBELET_CERTIFICATE as _CURRENT
from .damage import KUBELET_CONF as _CONFIG
from .kubeconfig import KubeconfigError, read_kubeconfig
from .leaves import check_authorities, check_clock, documents, node_configuration
from .membership import lost_name, node_name
from .run import Kubeadm
from .x509 import CertificateError, certificates, expires

_BOOTSTRAP = "/etc/kubernetes/bootstrap-kubelet.conf"
_CA_KEY = "/etc/kubernetes/pki/ca.key"
_GROUP = "system:nodes"
_USER = "bootstrap"
_INTERVAL = 1.0


class KubeletCertificate:
    """The client certificate of this host's kubelet. ``module`` has the parameters of kubelet_certificate."""

    def __init__(self, module: Any) -> None:
        params = module.params
        self._module = module
        self._root: str = params["root"]
        self._current = self._path(_CURRENT)
        self._runner = Runner(module, timeout=120)

    def ensure(self) -> dict[str, Any]:
        """Replace an expired certificate. Raise DomainError."""
        expired = self._is_expired()
        left = self._path(_CONFIG).exists() and _is_ours(read_text(self._path(_BOOTSTRAP)) or "")
        name = self._lost_name() if expired else ""
        result = {"changed": expired or left, "expired": expired, "token_left": left, "lost_name": name}
        if expired:
            check_clock(self._module.params["controller_time"])
            if self._path(_CA_KEY).exists():
                check_authorities(self._root)
        if self._module.check_mode:
            return result
        try:
            if expired:
                self._replace()
        finally:
            # It contains the token. An interrupted run may have left it.
            if _is_ours(read_text(self._path(_BOOTSTRAP)) or ""):
                put_file(self._path(_BOOTSTRAP), None)
        return result

    def _is_expired(self) -> bool:
        """Return whether the certificate has expired; a host that is not a node has none."""
        if not self._path(_CONFIG).exists():
            return False
        try:
            return expires(certificates(self._present())[0]) <= datetime.now(timezone.utc)
        except CertificateError:
            # It was cut off by a power failure, or is missing.
            return True

    def _lost_name(self) -> str:
        try:
            return lost_name(self._root, read_kubeconfig(read_text(self._path(_CONFIG)) or "").server)
        except KubeconfigError:
            return ""

    def _present(self) -> str:
        """Return the certificate that the kubelet uses. Without rotation, its kubeconfig contains it."""
        try:
            found = read_kubeconfig(read_text(self._path(_CONFIG)) or "")
        except KubeconfigError:
            return read_text(self._current) or ""
        return found.client_certificate or read_text(self._path(found.client_certificate_file or _CURRENT)) or ""

    def _replace(self) -> None:
        config = read_text(self._path(_CONFIG)) or ""
        if self._path(_CA_KEY).exists():
            self._sign(config)
            self._restart()
        elif self._module.params["token"]:
            put_file(self._path(_BOOTSTRAP), self._bootstrap_config(config).encode(), 0o600)
            self._restart()
        else:
            raise DomainError(
                "Error while renewing the kubelet's client certificate, which has expired: there is no token with "
                "which the kubelet could request a new one, and no key of the CA on this host. If the key is kept "
                f"elsewhere, create the certificate there, and copy it to {_CURRENT}."
            )
        self._wait()

    def _sign(self, config: str) -> None:
        """Create a certificate with the CA's key, under the name and in the place where the kubelet keeps it."""
        if _CURRENT not in config:
            raise DomainError(
                f"Error while renewing the kubelet's client certificate, which has expired: {_CONFIG} does not refer "
                f"to {_CURRENT}. Run kubeadm init phase kubelet-finalize all on this host."
            )
        name = node_name(read_text(self._current) or "") or self._module.params["node_name"]
        kubeadm = Kubeadm(self._module, self._module.params["executable"], 120, self._root)
        argv = ["kubeconfig", "user", "--client-name", f"system:node:{name}", "--org", _GROUP]
        parts = [node_configuration(self._root, self._module.params["node"]), self._module.params["cluster"]]
        found = read_kubeconfig(kubeadm.phase(argv, documents(*parts), "signing the kubelet's client certificate"))
        if not found.client_certificate or not found.client_key:
            raise DomainError("Error while signing the kubelet's client certificate: kubeadm returned none")
        stamp = datetime.now(timezone.utc).strftime("%Y-%m-%d-%H-%M-%S")
        path = self._current.with_name(f"kubelet-client-{stamp}.pem")
        put_file(path, f"{found.client_certificate}\n{found.client_key}\n".encode(), 0o600)
        link = self._current.with_name(".kubelet-client-current.pem")
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        link.replace(self._current)
        sync_path(self._current.parent)

    def _bootstrap_config(self, config: str) -> str:
        """Return a kubeconfig with the token for the server and the CA of the kubelet's own."""
        found = read_kubeconfig(config)
        authority = found.authority(self._root)
        if not authority:
            raise DomainError(f"Error while reading {_CONFIG}: it has no CA")
        encoded = base64.b64encode(authority.encode()).decode()
        cluster = {"server": found.server, "certificate-authority-data": encoded}
        if found.tls_server_name:
            cluster["tls-server-name"] = found.tls_server_name
        known = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": _USER, "user": {"token": self._module.params["token"]}}],
            "contexts": [{"name": _USER, "context": {"cluster": "cluster", "user": _USER}}],
            "current-context": _USER,
        }
        return json.dumps(known)

    def _restart(self) -> None:
        with contextlib.suppress(CommandError):
            # After many failures, systemd would refuse to start it.
            self._runner.run(["systemctl", "reset-failed", "kubelet"])
        self._runner.check(["systemctl", "restart", "kubelet"], "restarting the kubelet")

    def _wait(self) -> None:
        deadline = time.monotonic() + self._module.params["timeout"]
        while self._is_expired():
            if time.monotonic() >= deadline:
                limit = self._module.params["timeout"]
                raise DomainError(
                    f"Error while renewing the kubelet's client certificate: it was not issued within {limit} s. Check "
                    "journalctl -u kubelet on this host, and kubectl get csr."
                )
            time.sleep(_INTERVAL)

    def _path(self, name: str) -> Path:
        return under(self._root, name)


def _is_ours(text: str) -> bool:
    """Return whether this is a file with a token that this module has written; kubeadm writes YAML."""
    with contextlib.suppress(ValueError, LookupError, TypeError):
        found = json.loads(text)
        return found["current-context"] == _USER and [*found["users"][0]["user"]] == ["token"]
    return False
