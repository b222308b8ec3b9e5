# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect what another host needs to join this control plane's cluster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from .._errors import DomainError
from .._files import read_text, text_or_nothing
from .._words import listing
from .damage import SIGNERS
from .join_command import JoinCommand, certificate_key, join_command
from .kubeconfig import read_kubeconfig
from .run import Kubeadm
from .text import KubeadmTextError, timestamp
from .tokens import Token, list_tokens, tokens
from .x509 import certificates, public_key_hash


@dataclass(frozen=True)
class Wanted:
    """Settings of the token; it is reused if it is valid for ``life`` seconds more. ``ttl`` is a Go duration.

    ``pki``: whether the CAs and keys of the control planes are returned.
    """

    ttl: str
    reuse: bool
    life: int
    control_plane: bool
    pki: bool
    description: str | None


class JoinInfo:
    """Reads or creates join data. ``module`` is an AnsibleModule; ``kubeconfig`` belongs to a cluster administrator."""

    def __init__(self, module: Any, executable: str, kubeconfig: str, timeout: float, root: str = "/") -> None:
        self._kubeadm = Kubeadm(module, executable, timeout)
        self._module = module
        self._kubeconfig = kubeconfig
        self._root = root
        self._check: bool = module.check_mode

    def facts(self, wanted: Wanted) -> dict[str, Any]:
        """Return the module's result. Raise DomainError."""
        return {**self._join_facts(wanted), "pki": self._pki() if wanted.pki and not self._check else {}}

    def _join_facts(self, wanted: Wanted) -> dict[str, Any]:
        known, authority = self._known()
        token = self._usable(wanted.life) if known and wanted.reuse else None
        if self._check:
            return _facts(known, authority, token, wanted, changed=token is None or wanted.control_plane)
        key = self._upload_certificates() if wanted.control_plane else None
        if known and token:
            return _facts(known, authority, token, wanted, changed=wanted.control_plane, key=key)
        command = self._create(wanted)
        return _facts(command, authority, self._made(command.token), wanted, changed=True, key=key)

    def delete(self, token: str) -> dict[str, Any]:
        """Delete the token with this ID, and return the module's result."""
        try:
            if not self._check:
                self._run(["token", "delete", token], "deleting a join token")
        except DomainError as error:
            self._module.warn(f"{error}. The token is valid until it expires.")
            return {"changed": False}
        return {"changed": True}

    def _pki(self) -> dict[str, str]:
        """Return the texts of the CAs and keys that all control planes share, by path."""
        found = {path: text_or_nothing(self._root, path) for path in SIGNERS}
        missing = [path for path, text in found.items() if not text.strip()]
        if missing:
            raise DomainError(
                f"Error while reading the CAs and keys of this control plane: {listing(missing)} can't be read. A "
                "further control plane needs all of them: restore them from another control plane or a backup."
            )
        return found

    def _known(self) -> tuple[JoinCommand | None, str | None]:
        """Return endpoint and CA of the kubeconfig; None if the host is not a control plane yet."""
        text = read_text(Path(self._kubeconfig))
        if text is None:
            return None, None
        try:
            config = read_kubeconfig(text)
            authority = config.authority()
            if authority is None:
                raise DomainError("Error while reading a kubeconfig: it names no CA that can be read")
            hashes = tuple(sorted({public_key_hash(certificate) for certificate in certificates(authority)}))
        except DomainError as error:
            raise DomainError(f"{error} ({self._kubeconfig})", **error.fields) from error
        return JoinCommand(config.host, config.port, "", hashes), authority

    def _run(self, arguments: list[str], doing: str) -> str:
        return self._kubeadm.run([*arguments, "--kubeconfig", self._kubeconfig], doing)

    def _tokens(self) -> list[Token]:
        return tokens(self._kubeadm.run_known(list_tokens(self._kubeconfig), "listing the join tokens"))

    def _usable(self, life: int) -> Token | None:
        now = datetime.now(timezone.utc)
        try:
            usable = [token for token in self._tokens() if token.lets_join(now, timedelta(seconds=life))]
        except KubeadmTextError as error:
            self._module.warn(f"{error}. A new token is created instead of reusing an existing one.")
            return None
        latest = datetime.max.replace(tzinfo=timezone.utc)
        return max(usable, key=lambda token: (token.expires or latest, token.token), default=None)

    def _made(self, token: str) -> Token | None:
        """Return the cluster's data about a new token; warn and return None if they can't be read."""
        try:
            return next((found for found in self._tokens() if found.token == token), None)
        except DomainError as error:
            self._module.warn(f"{error}. The new token is valid nevertheless, but its expiry time is unknown.")
            return None

    def _create(self, wanted: Wanted) -> JoinCommand:
        arguments = ["token", "create", "--ttl", wanted.ttl, "--print-join-command"]
        arguments += ["--description", wanted.description] if wanted.description else []
        # The certificate key is a secret and must not be in argv, so this prints a worker's command.
        return join_command(self._run(arguments, "creating a join token"))

    def _upload_certificates(self) -> str:
        arguments = ["init", "phase", "upload-certs", "--upload-certs"]
        return certificate_key(self._run(arguments, "uploading the certificates of the control plane"))


def _facts(
    command: JoinCommand | None,
    authority: str | None,
    token: Token | None,
    wanted: Wanted,
    changed: bool,
    key: str | None = None,
) -> dict[str, Any]:
    made = command.token if command else ""
    return {
        "changed": changed,
        "api_endpoint": {"host": command.host if command else None, "port": command.port if command else None},
        "token": made or (token.token if token else None),
        "ca_cert_hashes": list(command.ca_cert_hashes) if command else [],
        "ca_certificates": authority,
        "certificate_key": key,
        "control_plane": wanted.control_plane,
        "expires": timestamp(token.expires) if token else None,
        "reused": bool(token and not made),
        "unsafe_skip_ca_verification": command.unsafe_skip_ca_verification if command else False,
    }
