# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch data from an address with Python only, through a given proxy."""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from .._errors import DomainError
from .credentials import Credentials, authorization

PROXY_OPTIONS: dict[str, dict[str, Any]] = {
    "http_proxy": {"type": "str", "default": "", "no_log": True},
    "https_proxy": {"type": "str", "default": "", "no_log": True},
    "no_proxy": {"type": "list", "elements": "str", "default": []},
}
_ATTEMPTS = 3


class FetchError(DomainError):
    """An address could not be read."""


def use_proxies(params: Mapping[str, Any]) -> None:
    """Set the proxies of PROXY_OPTIONS in the environment of this process; apt and urllib both use it."""
    values = {
        "http_proxy": params["http_proxy"],
        "https_proxy": params["https_proxy"],
        "no_proxy": ",".join(params["no_proxy"]),
    }
    os.environ.update({name: value for name, value in values.items() if value})


def fetch(
    url: str, what: str, timeout: float = 30, credentials: Credentials = (), largest: int = 64 * 1024 * 1024
) -> bytes:
    """Return the bytes at an address (http, https, file). Retry after server errors; raise FetchError.

    The error's field ``status`` is the HTTP status, 0 without a response.
    """
    status = 0
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _read(url, timeout, credentials, largest)
        except urllib.error.HTTPError as error:
            status, again = error.code, error.code >= 500
            reason = f"the server answered {error.code} {error.reason}"
        except (OSError, http.client.HTTPException) as error:
            reason, again = str(getattr(error, "reason", "") or error or type(error).__name__), True
        except ValueError as error:
            reason, again = str(error), False
        if not again or attempt == _ATTEMPTS:
            break
        time.sleep(attempt)
    raise FetchError(f"Error while fetching {what} from {url}: {reason}", status=status)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Sends a password only to its own server, and refuses redirects to unencrypted addresses, as apt does."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def redirect_request(self, *args: Any, **kwargs: Any) -> urllib.request.Request | None:
        request = super().redirect_request(*args, **kwargs)
        if request and args[0].type == "https" and request.type != "https":
            raise ValueError(f"it is redirected to {request.full_url}, which is not encrypted")
        return request and _authorized(request, self._credentials)


def _authorized(request: urllib.request.Request, credentials: Credentials) -> urllib.request.Request:
    header = authorization(credentials, request.full_url)
    if header:
        request.add_unredirected_header("Authorization", header)
    return request


def _read(url: str, timeout: float, credentials: Credentials, largest: int) -> bytes:
    request = urllib.request.Request(url, headers={"User-Agent": "gpulab.kubernetes"})
    opener = urllib.request.build_opener(_Redirects(credentials))
    with opener.open(_authorized(request, credentials), timeout=timeout) as answer:
        data: bytes = answer.read(largest + 1)
    if len(data) > largest:
        raise ValueError(f"it is larger than {largest} bytes")
    return data
