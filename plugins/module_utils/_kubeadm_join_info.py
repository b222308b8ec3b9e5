# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What another host needs to join the cluster of this control plane."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._hostfiles import read_text
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm import (
    JoinCommand,
    KubeadmTextError,
    Token,
    certificate_key,
    join_command,
    tokens,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm_run import Kubeadm
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeconfig import read_kubeconfig
from ansible_collections.gpulab.kubernetes.plugins.module_utils._pki import certificates, public_key_hash


@dataclass(frozen=True)
class Wanted:
    """``life`` is how long (seconds) a token must still be valid to be used again; ``ttl`` is one of Go's durations."""

    ttl: str
    reuse: bool
    life: int
    control_plane: bool
    description: str | None


class JoinInfo:
    """``module`` is an AnsibleModule; ``kubeconfig`` belongs to an administrator of the cluster."""

    def __init__(self, module: Any, executable: str, kubeconfig: str, timeout: float) -> None:
        self._kubeadm = Kubeadm(module, executable, timeout)
        self._kubeconfig = kubeconfig
        self._check: bool = module.check_mode

    def facts(self, wanted: Wanted) -> dict[str, Any]:
        """The module's result. Raises DomainError."""
        known = self._known()
        token = self._usable(wanted.life) if known and wanted.reuse else None
        if self._check:
            return _facts(known, token, wanted, changed=token is None or wanted.control_plane)
        key = self._upload_certificates() if wanted.control_plane else None
        if known and token:
            return _facts(known, token, wanted, changed=wanted.control_plane, key=key)
        command = self._create(wanted)
        made = next((found for found in self._tokens() if found.token == command.token), None)
        return _facts(command, made, wanted, changed=True, key=key)

    def _known(self) -> JoinCommand | None:
        """Endpoint and CA as the kubeconfig has them; None on a host that is no control plane (yet)."""
        text = read_text(Path(self._kubeconfig))
        if text is None:
            return None
        config = read_kubeconfig(text)
        authority = config.authority()
        if authority is None:
            raise DomainError(f"Error while preparing a join: {self._kubeconfig} names no CA")
        hashes = tuple(sorted({public_key_hash(certificate) for certificate in certificates(authority)}))
        return JoinCommand(config.host, config.port, "", hashes)

    def _run(self, arguments: list[str], doing: str) -> str:
        return self._kubeadm.run([*arguments, "--kubeconfig", self._kubeconfig], doing)

    def _tokens(self) -> list[Token]:
        text = self._run(["token", "list", "-o", "json"], "listing the join tokens")
        try:
            return tokens(text)
        except KubeadmTextError:
            # No token that could be used again is known then, and a new one is always right.
            return []

    def _usable(self, life: int) -> Token | None:
        now = datetime.now(timezone.utc)
        usable = [token for token in self._tokens() if token.lets_join(now, timedelta(seconds=life))]
        latest = datetime.max.replace(tzinfo=timezone.utc)
        return max(usable, key=lambda token: (token.expires or latest, token.token), default=None)

    def _create(self, wanted: Wanted) -> JoinCommand:
        arguments = ["token", "create", "--ttl", wanted.ttl, "--print-join-command"]
        arguments += ["--description", wanted.description] if wanted.description else []
        # The certificate key is a secret and stays out of argv, so this is the command for a worker.
        return join_command(self._run(arguments, "creating a join token"))

    def _upload_certificates(self) -> str:
        arguments = ["init", "phase", "upload-certs", "--upload-certs"]
        return certificate_key(self._run(arguments, "uploading the certificates of the control plane"))


def _facts(
    command: JoinCommand | None, token: Token | None, wanted: Wanted, changed: bool, key: str | None = None
) -> dict[str, Any]:
    made = command.token if command else ""
    return {
        "changed": changed,
        "api_endpoint": {"host": command.host if command else None, "port": command.port if command else None},
        "token": made or (token.token if token else None),
        "ca_cert_hashes": list(command.ca_cert_hashes) if command else [],
        "certificate_key": key,
        "control_plane": wanted.control_plane,
        "expires": token.expires.strftime("%Y-%m-%dT%H:%M:%SZ") if token and token.expires else None,
        "reused": bool(token and not made),
        "unsafe_skip_ca_verification": command.unsafe_skip_ca_verification if command else False,
    }
