# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way in which modules talk to the Kubernetes API: paths and plain dictionaries, errors with its words."""

from __future__ import annotations

import contextlib
import json
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
from . import connection
from . import kubeconfig as kubeconfigs
from .patience import Patience

_ADVICE = "Is the control plane up, and can this host reach it (cluster_api_delegate)?"
_PROXY = "Does a proxy or a captive portal answer instead of the API?"
BUSY = 429
# An API server that starts, or whose etcd elects a leader.
_TROUBLE = (500, 502, 503, 504)
# Also what a server says that has not read yet who may do what.
_FORBIDDEN = 403
# A new namespace has no service account as long as the controller manager is away, as it is after such a start.
_NO_ACCOUNT = "error looking up service account"
_EVICTION = "/eviction"
_LARGEST_ANSWER = 256 * 1024 * 1024
_LONGEST_MESSAGE = 2000
_CHUNK = 1024 * 1024
_SHORTEST_TRY = 5.0
# Who sends a byte now and then never meets the time limit of a single read.
_LONGEST_TRY = 120.0
_Asked = TypeVar("_Asked")


class ApiError(DomainError):
    """The API refused, or could not be asked. ``status`` is the HTTP status, 0 when there was no answer.

    ``causes`` are the reasons of the API's Status object, such as C(DisruptionBudget). ``passing``: whether the same
    request may succeed later.
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

    ``timeout`` is the limit in seconds of a single request. An API that does not answer, is busy or in trouble is asked
    again (see Patience). A request that creates something is repeated only if the API has not processed it.
    """

    def __init__(self, kubeconfig: str, timeout: float = 20) -> None:
        try:
            # Filters import this file, too, without asking the API.
            import urllib3

            text = Path(kubeconfig).expanduser().read_text(encoding="utf-8")
            config = kubeconfigs.read(text)
            self._pool = connection.pool(config)
        except ImportError as error:
            raise DomainError(missing_required_lib("kubernetes"), exception=str(error)) from error
        except (KubeconfigError, OSError, ValueError) as error:
            reason = str(error).removeprefix("Error while reading a kubeconfig: ")
            raise ApiError(f"Error while reading the kubeconfig {kubeconfig}: {reason}") from error
        self._urllib3: Any = urllib3
        self.server = config.server.rstrip("/")
        # Without a tunnel, whose port is another one each time.
        self.endpoint = config.original_server or self.server
        self._timeout = timeout
        self._patience = Patience(self.server, Path(f"{kubeconfig}.patience").expanduser())
        self.clock = self._patience.clock
        self._headers = {"authorization": f"Bearer {config.token}"} if config.token else {}

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """An object or a list, as the API gives it."""
        return self._object("GET", path, query)

    def find(self, path: str) -> dict[str, Any] | None:
        """An object, None when there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """All objects of a list. With a ``limit`` they are read in pages of so many."""
        return self.listed(path, **query)[0]

    def listed(self, path: str, **query: str) -> tuple[list[dict[str, Any]], str]:
        """The same, and the resourceVersion from which on the list can be watched, empty for none."""
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
        """The answer to a request that the API goes on answering, to be read and closed. It is asked only once."""
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
        """What the API answers that isn't JSON: logs and proxied requests.

        Trouble is that of the kubelet or pod that it asked, so it is not waited for.
        """
        return self._request("GET", path, query, trouble=())

    def text_within(self, seconds: float, path: str, **query: str) -> str:
        """The same, but asked only once and for so long: the API may wait for a kubelet that is gone."""
        return self._request("GET", path, query, once=seconds)

    def create(self, path: str, body: dict[str, Any], dry: bool = False) -> dict[str, Any]:
        """Create an object, and return it. Whether a request that was not answered has created it is looked up.

        ``dry``: as if.
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
            # It could be that of another run, which would be taken for the own one.
            if body.get("kind") == "Namespace":
                raise
            return found

    def apply(
        self, path: str, body: dict[str, Any], manager: str = "gpulab.kubernetes", dry: bool = False
    ) -> dict[str, Any]:
        """Create an object, or make it what is given (server-side apply), and return it. ``dry``: as if.

        What a ``manager`` applied before and does not apply again is removed, so whoever has a part of an object to
        itself takes a name of its own.
        """
        query = {"fieldManager": manager, "force": "true", **({"dryRun": "All"} if dry else {})}
        return self._object("PATCH", path, query, body, "application/apply-patch+yaml")

    def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object in one step, and return it; what is null in ``body`` is removed (JSON merge patch).

        With a resourceVersion in it, status 409 means that somebody else was faster.
        """
        return self._object("PATCH", path, body=body, content_type="application/merge-patch+json")

    def delete(self, path: str, **query: str) -> None:
        """Delete one object; one that is gone already is no error."""
        try:
            self._request("DELETE", path, query)
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
        # The server does not say whether it has processed a request that it could not answer.
        repeatable = method != "POST"
        # A disruption budget answers with this status, too, and its waits are those of the drain.
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
        """Whether the server has read its rules. A gateway in front of it may not know the path."""
        try:
            answer = self._ask("GET", self._url("/readyz", None), _SHORTEST_TRY, {"headers": self._headers})
        except self._urllib3.exceptions.HTTPError:
            return False
        return answer.status not in (_FORBIDDEN, BUSY, *_TROUBLE)

    def _ask_within(self, seconds: float, ask: Callable[[], _Asked]) -> _Asked:
        """One try, which is left to itself if it takes longer."""
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
        """One try, without following redirects. Raises HTTPError of urllib3."""
        timeout = once or max(_SHORTEST_TRY, min(self._timeout, self._patience.left()))
        answer = self._open(method, url, timeout, request)
        with contextlib.closing(answer):
            data = bytearray()
            # A few bytes could become gigabytes.
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
        """Whether it is one that another try may not meet: anything but a server that TLS does not accept."""
        if not isinstance(error, self._urllib3.exceptions.SSLError):
            return True
        return bool(error.args) and isinstance(error.args[0], (ssl.SSLEOFError, ssl.SSLZeroReturnError))

    def _unsent(self, error: Any) -> bool:
        exceptions = self._urllib3.exceptions
        cause = getattr(error, "original_error", error)
        return isinstance(cause, (exceptions.NewConnectionError, exceptions.ConnectTimeoutError))

    def _refusal(self, answer: _Answer, method: str, path: str) -> ApiError:
        """The API's own words, and what causes it names, out of its Status object."""
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


def _check_path(method: str, path: str) -> None:
    problem = path_problem(path)
    if problem:
        raise ApiError(f"Error while asking the API ({method} {path!r:.300}): {problem}")
