# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Client of the Kubernetes API for modules: paths and plain dictionaries; errors contain the API's message."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Collection
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from ansible.module_utils.basic import missing_required_lib

from .._api_path import path_problem
from .._errors import DomainError
from .._json import as_object, as_text, read_object
from .._kubeadm.kubeconfig import KubeconfigError
from . import kubeconfig as kubeconfigs
from .patience import Patience

_ADVICE = "Is the control plane up, and can this host reach it (cluster_api_delegate)?"
_PROXY = "Does a proxy or a captive portal answer instead of the API?"
BUSY = 429
# Statuses of an API server that is starting, or whose etcd is electing a leader.
_TROUBLE = (500, 502, 503, 504)
# Also returned by a server that has not loaded its authorization rules yet.
_FORBIDDEN = 403
# Without a running controller manager, as after such a start, a new namespace has no service account.
_NO_ACCOUNT = "error looking up service account"
_EVICTION = "/eviction"
_LARGEST_ANSWER = 256 * 1024 * 1024
_LONGEST_MESSAGE = 2000
_CHUNK = 1024 * 1024
_SHORTEST_TRY = 5.0
# A server that sends a byte now and then never exceeds the time limit of a single read.
_LONGEST_TRY = 120.0
_Asked = TypeVar("_Asked")


class ApiError(DomainError):
    """The API refused a request or could not be reached; ``status`` is the HTTP status, 0 without a response.

    ``causes`` are the reasons in the API's Status object, such as ``DisruptionBudget``. ``passing``: the same request
    may succeed later.
    """

    def __init__(
        self, message: str, status: int = 0, causes: Collection[str] = (), passing: bool | None = None
    ) -> None:
        super().__init__(message, status=status, inconclusive=True)
        self.status = status
        self.causes = frozenset(causes)
        self.passing = status in (BUSY, *_TROUBLE) if passing is None else passing


@dataclass(frozen=True)
class _Answer:
    status: int
    text: str
    retry_after: float = 0


class Api:
    """A client for one cluster, from a kubeconfig file.

    ``timeout`` is the limit of a single request in seconds. Requests are repeated while the API is busy, unreachable or
    returns server errors (see Patience). Requests that create objects are only repeated if the API has not processed
    them.
    """

    def __init__(self, kubeconfig: str, timeout: float = 20) -> None:
        try:
            # Filters also import this file without needing a client, and the import takes as long as a task.
            import urllib3
            from kubernetes import config
        except ImportError as error:
            raise DomainError(missing_required_lib("kubernetes"), exception=str(error)) from error
        self._urllib3: Any = urllib3
        client_config: Any = config
        try:
            text = Path(kubeconfig).expanduser().read_text(encoding="utf-8")
            kubeconfig_fields = kubeconfigs.read(text)
            config_dict = kubeconfigs.build(kubeconfig_fields)
            self._credentials = _moved_to_memory(config_dict)
            client = client_config.new_client_from_config_dict(config_dict)
        except (client_config.ConfigException, KubeconfigError, OSError, ValueError) as error:
            reason = str(error).removeprefix("Error while reading a kubeconfig: ")
            raise ApiError(f"Error while reading the kubeconfig {kubeconfig}: {reason}") from error
        self.server: str = client.configuration.host
        # The original address, because a tunnel's port changes each time.
        self.endpoint: str = kubeconfig_fields.original_server or self.server
        self._pool = client.rest_client.pool_manager
        self._timeout = timeout
        self._patience = Patience(self.server, Path(f"{kubeconfig}.patience").expanduser())
        self.clock = self._patience.clock
        self._headers = {
            setting["key"]: setting["value"]
            for setting in client.configuration.auth_settings().values()
            if setting["in"] == "header" and setting["value"]
        }

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Return an object or a list from the API."""
        return self._object("GET", path, query)

    def find(self, path: str) -> dict[str, Any] | None:
        """Return an object, None if it does not exist."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """Return all objects of a list. With ``limit``, they are read in pages of that size."""
        return self.listed(path, **query)[0]

    def listed(self, path: str, **query: str) -> tuple[list[dict[str, Any]], str]:
        """Return all objects of a list, and the resourceVersion from which to watch it, empty if there is none."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.get(path, **query)
            items, metadata = page.get("items") or [], page.get("metadata")
            if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
                raise ApiError(
                    f"Error while reading the answer of {self.server} to GET {path}: it is not a list. {_PROXY}"
                )
            found += items
            metadata = metadata if isinstance(metadata, dict) else {}
            more = as_text(metadata.get("continue"))
            if not more:
                return found, as_text(metadata.get("resourceVersion"))
            query["continue"] = more

    def stream(self, path: str, **query: str) -> Any:
        """Return an open streamed response, which the caller must read and close. The request is not repeated."""
        _check_path("GET", path)
        url, request = self._url(path, query), {"headers": self._headers}
        try:
            answer = self._ask_within(_SHORTEST_TRY, lambda: self._open("GET", url, _SHORTEST_TRY, request))
        except self._urllib3.exceptions.HTTPError as error:
            raise ApiError(f"Error while asking the API at {self.server} (GET {path}): {error}. {_ADVICE}") from error
        if answer.status != 200:
            answer.close()
            raise ApiError(f"Error while asking the API (GET {path}): HTTP status {answer.status}", answer.status)
        return answer

    def text(self, path: str, **query: str) -> str:
        """Return a response that is not JSON: logs and proxied requests.

        Server errors come from the kubelet or pod and are not waited for.
        """
        return self._request("GET", path, query, trouble=())

    def text_within(self, seconds: float, path: str, **query: str) -> str:
        """Return a text response with one request and a time limit; the API may wait for an unreachable kubelet."""
        return self._request("GET", path, query, once=seconds)

    def create(self, path: str, body: dict[str, Any], dry: bool = False) -> dict[str, Any]:
        """Create an object and return it. ``dry`` changes nothing.

        If a request was not answered, look up whether it created the object.
        """
        try:
            return self._object("POST", path, {"dryRun": "All"} if dry else None, body)
        except ApiError as error:
            name = body.get("metadata", {}).get("name")
            if not error.passing or error.status == BUSY or not name or dry or path.endswith(_EVICTION):
                raise
            found = self.find(f"{path}/{name}")
            if found is None:
                return self._object("POST", path, body=body)
            # The namespace could belong to another run.
            if body.get("kind") == "Namespace":
                raise
            return found

    def apply(
        self, path: str, body: dict[str, Any], manager: str = "gpulab.kubernetes", dry: bool = False
    ) -> dict[str, Any]:
        """Create or update an object with server-side apply, and return it. ``dry`` changes nothing.

        Fields that the same ``manager`` applied before and omits now are removed, so each independent part of an object
        needs its own manager.
        """
        query = {"fieldManager": manager, "force": "true", **({"dryRun": "All"} if dry else {})}
        return self._object("PATCH", path, query, body, "application/apply-patch+yaml")

    def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object and return it; null values in ``body`` remove fields (JSON merge patch).

        If ``body`` has a resourceVersion, status 409 means that the object was changed meanwhile.
        """
        return self._object("PATCH", path, body=body, content_type="application/merge-patch+json")

    def delete(self, path: str, uid: str = "", **query: str) -> None:
        """Delete an object, if it exists. With ``uid``, status 409 means that another one has its name now."""
        try:
            self._request("DELETE", path, query, {"preconditions": {"uid": uid}} if uid else None)
        except ApiError as error:
            if error.status != 404:
                raise

    def _object(self, method: str, path: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        text = self._request(method, path, *args, **kwargs)
        try:
            return read_object(text, f"the answer of {self.server} to {method} {path}")
        except DomainError as error:
            raise ApiError(f"{error}. {_PROXY}") from None

    def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        content_type: str = "application/json",
        once: float | None = None,
        trouble: Collection[int] = _TROUBLE,
    ) -> str:
        _check_path(method, path)
        url = self._url(path, query)
        request = {
            "body": None if body is None else json.dumps(body).encode(),
            "headers": {
                **self._headers,
                "Accept": "application/json, */*",
                "Accept-Encoding": "identity",
                "Content-Type": content_type,
            },
        }
        # The server does not report whether it processed a request that it could not answer.
        repeatable = method != "POST"
        # A disruption budget also returns this status; drain waits for it.
        busy = () if path.endswith(_EVICTION) else (BUSY,)
        began, ready = time.monotonic(), False
        while True:
            asked = time.monotonic()
            try:
                answer = self._ask_within(once or _LONGEST_TRY, lambda: self._ask(method, url, once, request))
            except self._urllib3.exceptions.HTTPError as error:
                passing = self._passing(error)
                again = not once and passing and (repeatable or self._unsent(error))
                if not again or not self._patience.wait(began, asked):
                    reason = getattr(error, "reason", None) or error
                    raise ApiError(
                        f"Error while asking the API at {self.server} ({method} {path}): {reason}. {_ADVICE}",
                        passing=passing,
                    ) from error
                continue
            if answer.status == _FORBIDDEN and not once and (not ready or _NO_ACCOUNT in answer.text):
                ready = _NO_ACCOUNT not in answer.text and self._ready()
                if ready or self._patience.wait(began, asked):
                    continue
            again = answer.status in busy or (repeatable and answer.status in trouble)
            if once or not again:
                self._patience.answered()
            elif self._patience.wait(began, asked, answer.retry_after):
                continue
            if not 200 <= answer.status < 300:
                raise self._refusal(answer, method, path)
            return answer.text

    def _ready(self) -> bool:
        """Return whether the server has loaded its rules. A gateway in front of it may not know the path."""
        try:
            answer = self._ask("GET", self._url("/readyz", None), _SHORTEST_TRY, {"headers": self._headers})
        except self._urllib3.exceptions.HTTPError:
            return False
        return answer.status not in (_FORBIDDEN, BUSY, *_TROUBLE)

    def _ask_within(self, seconds: float, ask: Callable[[], _Asked]) -> _Asked:
        """Make one attempt, and abandon it after the time limit."""
        answer: futures.Future[_Asked] = futures.Future()

        def work() -> None:
            try:
                answer.set_result(ask())
            except Exception as error:
                answer.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        try:
            return answer.result(seconds)
        except futures.TimeoutError:
            raise self._urllib3.exceptions.TimeoutError(f"no complete answer within {seconds:g} s") from None

    def _ask(self, method: str, url: str, once: float | None, request: dict[str, Any]) -> _Answer:
        """Make one attempt without following redirects. Raise HTTPError of urllib3."""
        timeout = once or max(_SHORTEST_TRY, min(self._timeout, self._patience.left()))
        answer = self._open(method, url, timeout, request)
        with contextlib.closing(answer):
            data = bytearray()
            # A few compressed bytes could expand to gigabytes.
            for part in answer.stream(_CHUNK, decode_content=False):
                data += part
                if len(data) > _LARGEST_ANSWER:
                    raise ApiError(
                        f"Error while reading the answer of {self.server} to {method} {url.partition('?')[0]}: it has "
                        f"more than {_LARGEST_ANSWER} bytes. {_PROXY}"
                    )
        seconds = answer.headers.get("Retry-After", "")
        return _Answer(answer.status, data.decode("utf-8", "replace"), float(seconds) if seconds.isdecimal() else 0)

    def _open(self, method: str, url: str, timeout: float, request: dict[str, Any]) -> Any:
        return self._pool.request(
            method,
            url,
            **request,
            timeout=timeout,
            retries=False,
            redirect=False,
            preload_content=False,
            enforce_content_length=True,
        )

    def _url(self, path: str, query: dict[str, str] | None) -> str:
        return f"{self.server.rstrip('/')}{path}" + (f"?{urlencode(query)}" if query else "")

    def _passing(self, error: Any) -> bool:
        """Return whether another attempt may succeed: always, unless TLS rejected the server."""
        if not isinstance(error, self._urllib3.exceptions.SSLError):
            return True
        return bool(error.args) and isinstance(error.args[0], (ssl.SSLEOFError, ssl.SSLZeroReturnError))

    def _unsent(self, error: Any) -> bool:
        exceptions = self._urllib3.exceptions
        cause = getattr(error, "original_error", error)
        return isinstance(cause, (exceptions.NewConnectionError, exceptions.ConnectTimeoutError))

    def _refusal(self, answer: _Answer, method: str, path: str) -> ApiError:
        """Return an error with the message and causes in the API's Status object."""
        words, causes = answer.text.strip(), []
        with contextlib.suppress(DomainError):
            status = read_object(answer.text, "a Status")
            words = as_text(status.get("message")) or words
            listed = as_object(status.get("details"), "the details of a Status").get("causes")
            causes = (
                [as_text(each.get("reason")) for each in listed if isinstance(each, dict)]
                if isinstance(listed, list)
                else []
            )
        words = words[:_LONGEST_MESSAGE] or f"HTTP status {answer.status}"
        if 300 <= answer.status < 400:
            words = f"HTTP status {answer.status}. {_PROXY}"
        return ApiError(f"Error while asking the API ({method} {path}): {words}", answer.status, causes)


def _moved_to_memory(config: dict[str, Any]) -> list[Any]:
    """Replace certificates and keys in a kubeconfig by paths of files in memory, and return the open files.

    The client writes such data to temporary files, which stay if the process is killed. Files in memory end with it.
    Systems other than Linux do not have them.
    """
    if not hasattr(os, "memfd_create"):
        return []
    files = []
    for fields in (config["clusters"][0]["cluster"], config["users"][0]["user"]):
        for name in [name for name in fields if name.endswith("-data")]:
            file = os.fdopen(os.memfd_create("kubeconfig"), "wb", buffering=0)
            file.write(base64.b64decode(fields.pop(name)))
            fields[name.removesuffix("-data")] = f"/proc/self/fd/{file.fileno()}"
            files.append(file)
    return files


def _check_path(method: str, path: str) -> None:
    problem = path_problem(path)
    if problem:
        raise ApiError(f"Error while asking the API ({method} {path!r:.300}): {problem}")
