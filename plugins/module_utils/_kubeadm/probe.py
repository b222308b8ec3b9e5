# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send requests to an API server from a host, using only Python's standard library."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from .._api_path import path_problem
from .._errors import DomainError
from .kubeconfig import Kubeconfig, endpoint

_LARGEST_ANSWER = 16 * 1024 * 1024
_FORBIDDEN = 403
_READY = "/readyz"


class ApiSilentError(DomainError):
    """The address does not answer, or not yet."""


class ApiBusyError(ApiSilentError):
    """A server answers too late or with a server error: it is slow, overloaded, or has lost its etcd."""


class ApiConflictError(DomainError):
    """The object was changed or created since it was read."""


class ApiRefusedError(DomainError):
    """An API server refuses these credentials, or is not the expected server."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any

    def items(self) -> list[Any]:
        found = self.body.get("items") if isinstance(self.body, dict) else None
        return found if isinstance(found, list) else []


class Api:
    """Client of an API server with the credentials of a kubeconfig.

    ``server`` replaces the address in the kubeconfig; ``root`` is the root directory. With ``read_only`` nothing is
    changed.
    """

    def __init__(
        self,
        kubeconfig: Kubeconfig,
        tmpdir: str,
        root: str = "/",
        server: str | None = None,
        timeout: float = 5,
        read_only: bool = False,
    ) -> None:
        self._read_only = read_only
        self.server = server or kubeconfig.server
        self._host, self._port = endpoint(self.server)
        self._timeout = timeout
        self._token = kubeconfig.token
        self._context = _context(kubeconfig, tmpdir, root)

    def get(self, path: str, **query: str) -> Answer:
        """Send a GET request and return the answer (status 200 or 404).

        Raise ApiSilentError (ApiBusyError for 429 and 5xx) or ApiRefusedError (401, 403, TLS).
        """
        return self._request("GET", path, None, query)

    def send(self, method: str, path: str, body: Any) -> None:
        """Send a change; also raise ApiConflictError if the object has changed meanwhile (409)."""
        if not self._read_only:
            self._request(method, path, body)

    def _request(self, method: str, path: str, body: Any, query: Mapping[str, str] | None = None) -> Answer:
        problem = path_problem(path)
        if problem:
            raise ApiRefusedError(f"{self.server} can't be asked for {path!r:.300}: {problem}")
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        kind = ApiSilentError
        try:
            with contextlib.closing(connection):
                self._connect(connection)
                kind = ApiBusyError
                url = f"{path}?{urlencode(query)}" if query else path
                connection.request(method, url, None if body is None else json.dumps(body), headers=headers)
                response = connection.getresponse()
                answer = Answer(response.status, _json(response.read(_LARGEST_ANSWER)))
        except ssl.SSLCertVerificationError as error:
            raise ApiRefusedError(
                f"{self.server} presents a certificate that is not valid for this cluster: {error.verify_message}"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise kind(f"{self.server} does not answer: {_words(error)}") from error
        if answer.status in (200, 201, 404):
            return answer
        said = answer.body.get("message") if isinstance(answer.body, dict) else None
        text = f"{self.server} answers {answer.status} to {path}: {said or response.reason}"
        kinds = {401: ApiRefusedError, _FORBIDDEN: ApiRefusedError, 409: ApiConflictError}
        if answer.status == _FORBIDDEN and path != _READY and not self._ready():
            raise ApiBusyError(f"{text} (it is starting)")
        raise kinds.get(answer.status, ApiBusyError)(text)

    def _ready(self) -> bool:
        """Return whether the server has loaded its authorization rules; until then it refuses permitted requests."""
        try:
            self._request("GET", _READY, None)
        except (ApiSilentError, ApiRefusedError):
            return False
        return True

    @staticmethod
    def _connect(connection: http.client.HTTPSConnection) -> None:
        try:
            connection.connect()
        except socket.timeout as error:
            # Without a socket, no server accepted the connection.
            if connection.sock is None:
                raise
            raise ApiBusyError(f"{connection.host}:{connection.port} does not answer: {_words(error)}") from error


def _context(kubeconfig: Kubeconfig, tmpdir: str, root: str) -> ssl.SSLContext:
    authority = kubeconfig.authority(root)
    try:
        context = ssl.create_default_context(cadata=authority) if authority else ssl.create_default_context()
        # Python 3.13 requires extensions that CAs from older versions of kubeadm lack.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        if kubeconfig.client_certificate and kubeconfig.client_key:
            # Python loads keys only from files.
            handle, path = tempfile.mkstemp(dir=tmpdir)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(f"{kubeconfig.client_certificate}\n{kubeconfig.client_key}\n")
                context.load_cert_chain(path)
            finally:
                Path(path).unlink()
        elif kubeconfig.client_certificate_file:
            certificate = Path(root) / kubeconfig.client_certificate_file.lstrip("/")
            key = Path(root) / (kubeconfig.client_key_file or kubeconfig.client_certificate_file).lstrip("/")
            context.load_cert_chain(str(certificate), str(key))
    except (OSError, ValueError) as error:
        raise ApiRefusedError(f"the credentials for {kubeconfig.server} can't be used: {_words(error)}") from error
    return context


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _words(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
