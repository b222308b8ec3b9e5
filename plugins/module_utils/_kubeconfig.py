# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads kubeconfig files on hosts without PyYAML: the block style that kubeadm, kubelet and kubectl write, or JSON."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError

_KEY = re.compile(r"""(?P<key>"[^"]*"|'[^']*'|[^\s"'#:][^:#]*):(?:[ \t]+(?P<value>.*))?$""")
_PLAIN = re.compile(r"(?P<text>.*?)(?:\s+#.*)?$")


class KubeconfigError(DomainError):
    """The text is no kubeconfig that can be used."""


@dataclass(frozen=True)
class Kubeconfig:
    """The cluster and the user of the current context. Certificates are PEM texts, files are named by path."""

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

    def authority(self, root: str = "/") -> str | None:
        """The PEM text of the CA, wherever it lies; None when there is none."""
        if self.ca or not self.ca_file:
            return self.ca
        try:
            return (Path(root) / self.ca_file.lstrip("/")).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None


def read_kubeconfig(text: str) -> Kubeconfig:
    """Raises KubeconfigError for anything that does not name one server."""
    try:
        data = json.loads(text) if text.lstrip().startswith("{") else _Block(text).document()
    except (ValueError, RecursionError) as error:
        raise KubeconfigError(f"Error while reading a kubeconfig: {error}") from error
    context = _named(data, "contexts", "context", _text(data, "current-context"))
    cluster = _named(data, "clusters", "cluster", _text(context, "cluster"))
    user = _named(data, "users", "user", _text(context, "user"))
    server = _text(cluster, "server")
    if not server:
        raise KubeconfigError("Error while reading a kubeconfig: it names no server")
    host, port = endpoint(server)
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
    )


def endpoint(server: str) -> tuple[str, int]:
    """Host and port of V(https://host:port); an IPv6 address comes without its brackets."""
    try:
        parts = urlsplit(server)
        host, port = parts.hostname, parts.port or 443
    except ValueError as error:
        raise KubeconfigError(f"Error while reading the server address {server!r}: {error}") from error
    # urlsplit drops tabs and line ends without a word.
    if parts.scheme != "https" or not host or not server.isprintable() or " " in server:
        raise KubeconfigError(f"Error while reading the server address {server!r}: it is not https://host:port")
    return host, port


def _named(data: Any, plural: str, singular: str, name: str | None) -> dict[str, Any]:
    entries = data.get(plural) if isinstance(data, dict) else None
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    # Files made by hand may have no current context; with one entry there is no doubt.
    chosen = [entry for entry in entries if entry.get("name") == name] or (entries if len(entries) == 1 else [])
    value = chosen[0].get(singular) if chosen else None
    return value if isinstance(value, dict) else {}


def _text(data: Any, key: str) -> str | None:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, str) and value else None


def _decoded(data: dict[str, Any], key: str) -> str | None:
    value = _text(data, key)
    if value is None:
        return None
    try:
        return base64.b64decode(value, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as error:
        raise KubeconfigError(f"Error while reading a kubeconfig: {key} is not valid base64") from error


class _Block:
    """The part of YAML that kubeconfig files are written in: nested maps and lists in block style, plain scalars."""

    def __init__(self, text: str) -> None:
        self._lines = list(self._content(text.splitlines()))
        self._position = 0

    @staticmethod
    def _content(lines: Iterable[str]) -> Iterable[tuple[int, str]]:
        for line in lines:
            content = line.strip()
            if content and not content.startswith("#") and content not in ("---", "..."):
                yield len(line) - len(line.lstrip(" ")), content

    def document(self) -> Any:
        value = self._value(0)
        if self._position != len(self._lines):
            raise ValueError(f"can't make sense of {self._lines[self._position][1][:40]!r}")
        return value

    def _peek(self) -> tuple[int, str]:
        return self._lines[self._position] if self._position < len(self._lines) else (-1, "")

    def _value(self, least: int) -> Any:
        indent, content = self._peek()
        if indent < least:
            return None
        return self._list(indent) if self._is_item(content) else self._map(indent)

    @staticmethod
    def _is_item(content: str) -> bool:
        return content == "-" or content.startswith("- ")

    def _list(self, indent: int) -> list[Any]:
        found = []
        while self._peek()[0] == indent and self._is_item(self._peek()[1]):
            rest = self._peek()[1][1:].strip()
            if not rest:
                self._position += 1
                found.append(self._value(indent + 1))
            elif _KEY.match(rest):
                # "- key: value" begins a map that goes on in the lines below, two columns further in.
                inner = indent + len(self._peek()[1]) - len(rest)
                self._lines[self._position] = (inner, rest)
                found.append(self._map(inner))
            else:
                self._position += 1
                found.append(self._scalar(rest))
        return found

    def _map(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._peek()[0] == indent:
            match = _KEY.match(self._peek()[1])
            if not match or self._is_item(self._peek()[1]):
                raise ValueError(f"can't make sense of {self._peek()[1][:40]!r}")
            self._position += 1
            value = (match["value"] or "").strip()
            if value and not value.startswith("#"):
                found[self._scalar(match["key"])] = self._scalar(value)
            else:
                # A list may stand at the same depth as the key it belongs to.
                found[self._scalar(match["key"])] = self._value(indent + (not self._is_item(self._peek()[1])))
        return found

    @staticmethod
    def _scalar(text: str) -> Any:
        if text[0] == '"':
            return json.loads(text) if text.endswith('"') else json.loads(text.partition(" #")[0])
        if text[0] == "'":
            return text.partition(" #")[0].rstrip().strip("'").replace("''", "'")
        match = _PLAIN.match(text)
        plain = match["text"] if match else text
        if plain[:1] in "|>&*!%@`{[" and plain not in ("{}", "[]"):
            raise ValueError(f"can't make sense of {plain[:40]!r}")
        return {"{}": {}, "[]": [], "null": None, "~": None, "": None}.get(plain, plain)
