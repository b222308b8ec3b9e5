# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read kubeconfig files, in YAML or JSON, on hosts without PyYAML."""

from __future__ import annotations

import base64
import binascii
import contextlib
import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._errors import DomainError
from .._files import read_file
from .yaml_block import read_yaml

# URL parsers disagree about user names, backslashes and other characters; each could lead to another host.
_ADDRESS = re.compile(r"[a-z]{1,10}://[A-Za-z0-9.:\[\]-]+/?")
_SERVER = re.compile(
    r"https://(?:(?P<name>[a-z0-9_][a-z0-9_.-]*)|\[(?P<ip>[0-9a-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?(?:/[a-z0-9_.~/-]*)?",
    re.IGNORECASE,
)
# Extension of a cluster that is reached through a tunnel. Kubernetes' programs ignore unknown extensions.
ORIGINAL_SERVER = "gpulab.io/server"
_NAME = re.compile(r"[A-Za-z0-9_.:-]+")
_UNSAFE_CLUSTER = ("certificate-authority", "insecure-skip-tls-verify", "proxy-url")
_UNSAFE_USER = ("exec", "auth-provider", "tokenFile", "client-certificate", "client-key")


class KubeconfigError(DomainError):
    """The text is not a usable kubeconfig."""


@dataclass(frozen=True)
class Kubeconfig:
    """Cluster and user of the current context. Certificates are PEM texts, files are given by path."""

    server: str
    host: str
    port: int
    ca: str | None = None
    ca_file: str | None = None
    client_certificate: str | None = None
    client_certificate_file: str | None = None
    client_key: str | None = None
    client_key_file: str | None = None
    token: str | None = None
    tls_server_name: str | None = None
    original_server: str | None = None
    # Names of settings of this cluster and user that run programs, read files or weaken TLS.
    unsafe: tuple[str, ...] = ()

    def authority(self, root: str = "/") -> str | None:
        """Return the PEM text of the CA, from the kubeconfig or its file; None if there is none."""
        if self.ca or not self.ca_file:
            return self.ca
        try:
            data = read_file(Path(root) / self.ca_file.lstrip("/"))
        except OSError:
            return None
        return None if data is None else data.decode("utf-8", "replace")


def read_kubeconfig(text: str, context_name: str = "", load: Callable[[str], Any] = read_yaml) -> Kubeconfig:
    """Return the named or the current context.

    ``load`` parses YAML and raises ValueError for invalid text. Raise KubeconfigError if there is not exactly one
    server.
    """
    try:
        data = _loaded_json(text) or load(text)
    except (ValueError, RecursionError) as error:
        raise KubeconfigError(f"Error while reading a kubeconfig: {error}") from error
    context = _named(data, "contexts", "context", context_name or _text(data, "current-context"))
    if context_name and context_name not in (entry.get("name") for entry in _entries(data, "contexts")):
        raise KubeconfigError(f"Error while reading a kubeconfig: it has no context {context_name}")
    cluster = _named(data, "clusters", "cluster", _text(context, "cluster"))
    user = _named(data, "users", "user", _text(context, "user"))
    server, certified = _text(cluster, "server"), _text(cluster, "tls-server-name")
    if not server:
        raise KubeconfigError("Error while reading a kubeconfig: it names no server")
    try:
        host, port = endpoint(server)
    except KubeconfigError:
        raise KubeconfigError(
            f"Error while reading a kubeconfig: its server{_shown(server)} is not https://host:port"
        ) from None
    if certified and not _NAME.fullmatch(certified):
        raise KubeconfigError(f"Error while reading a kubeconfig: its tls-server-name {certified!r:.200} is not a name")
    return Kubeconfig(
        server=server,
        host=host,
        port=port,
        ca=_decoded(cluster, "certificate-authority-data"),
        ca_file=_text(cluster, "certificate-authority"),
        client_certificate=_decoded(user, "client-certificate-data"),
        client_certificate_file=_text(user, "client-certificate"),
        client_key=_decoded(user, "client-key-data"),
        client_key_file=_text(user, "client-key"),
        token=_text(user, "token"),
        tls_server_name=certified,
        original_server=_original_server(cluster),
        unsafe=tuple(
            name
            for part, names in ((cluster, _UNSAFE_CLUSTER), (user, _UNSAFE_USER))
            for name in names
            if part.get(name) not in (None, "", False, "false")
        ),
    )


def _loaded_json(text: str) -> Any:
    """Return the parsed JSON, None if the text is not JSON."""
    with contextlib.suppress(ValueError):
        return json.loads(text) if text.lstrip().startswith("{") else None
    return None


def _shown(server: str) -> str:
    """Return the address for a message, empty if it could contain a password or text from elsewhere in the file."""
    return f" {server[:200]!r}" if _ADDRESS.fullmatch(server) else ""


def endpoint(server: str) -> tuple[str, int]:
    """Return host and port of ``https://host:port``; an IPv6 address without brackets."""
    match = _SERVER.fullmatch(server)
    if match and 0 < int(match["port"] or 443) < 65536:
        with contextlib.suppress(ValueError):
            host = match["name"] or str(ipaddress.IPv6Address(match["ip"]))
            return host.lower(), int(match["port"] or 443)
    raise KubeconfigError(f"Error while reading the server address {server!r:.200}: it is not https://host:port")


def host_port(host: str, port: int) -> str:
    """Return host and port for a URL; an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _entries(data: Any, plural: str) -> list[dict[str, Any]]:
    entries = data.get(plural) if isinstance(data, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _named(data: Any, plural: str, singular: str, name: str | None) -> dict[str, Any]:
    entries = _entries(data, plural)
    # Files written by hand may have no current context; a single entry is unambiguous.
    chosen = [entry for entry in entries if entry.get("name") == name] or (entries if len(entries) == 1 else [])
    value = chosen[0].get(singular) if chosen else None
    return value if isinstance(value, dict) else {}


def _text(data: Any, key: str) -> str | None:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, str) and value else None


def _original_server(cluster: dict[str, Any]) -> str | None:
    """Return the original server if ``server`` is the address of a tunnel."""
    named = [each.get("extension") for each in _entries(cluster, "extensions") if each.get("name") == ORIGINAL_SERVER]
    server = _text(named[0], "server") if named else None
    try:
        return server if server and endpoint(server) else None
    except KubeconfigError:
        return None


def _decoded(data: dict[str, Any], key: str) -> str | None:
    value = _text(data, key)
    if value is None:
        return None
    try:
        # Base64 text may span several lines.
        return base64.b64decode("".join(value.split()), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as error:
        raise KubeconfigError(f"Error while reading a kubeconfig: {key} is not valid base64") from error
