"""Send requests over HTTPS: report redirects, fetch registry tokens, and describe errors in one sentence.

A user and a password in an address are sent as a header, and are never printed.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_AGENT = "gpulab.kubernetes verify-upstream"
_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_CREDENTIALS = re.compile(r"//[^/?#]*@")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_DOCKER_HUB = "docker.io"
_TRIES = 3
_AGAIN = (429, 500, 502, 503, 504)


class WebError(Exception):
    """A request failed or did not return a file; `status` is 0 without a response."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Answer:
    """The content, and the final address after redirects."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to HTTPS only, and send no token to other hosts."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urllib.parse.urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError(f"it redirects to {shown(newurl)}, which is not HTTPS")
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None:
            following.method = req.get_method()
            if urllib.parse.urlsplit(newurl).netloc != urllib.parse.urlsplit(req.full_url).netloc:
                following.remove_header("Authorization")
        return following


class Web:
    """An HTTPS client; proxies come from the environment, trusted authorities from SSL_CERT_FILE or a file."""

    def __init__(self, ca: str | None = None, timeout: float = 60.0) -> None:
        context = ssl.create_default_context()
        if ca:
            try:
                context.load_verify_locations(ca)
            except OSError as error:
                cause = error.strerror if not isinstance(error, ssl.SSLError) else "it holds no certificate"
                raise WebError(
                    f"Error while reading the authorities in {ca} (--ca): {cause}. Give a PEM file."
                ) from error
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _Redirects())
        self._timeout = timeout
        self._pause = _seconds(os.environ.get("GPULAB_UPSTREAM_PAUSE", ""), 2.0)
        # Errors of servers that refused connections, which are not tried again.
        self._silent: dict[str, str] = {}

    def get(self, url: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        """Return the content of a URL. Raise WebError."""
        url, credentials = split(url)
        server = urllib.parse.urlsplit(url).netloc
        for attempt in range(1, _TRIES + 1):
            if server in self._silent:
                raise WebError(self._silent[server])
            try:
                return self._get(url, {**credentials, **(headers or {})}, method)
            except WebError as error:
                if attempt == _TRIES and _took_no_connection(error):
                    self._silent[server] = str(error)
                if attempt == _TRIES or (error.status and error.status not in _AGAIN):
                    raise
            time.sleep(self._pause * attempt)
        raise AssertionError("unreachable")

    def digest(self, reference: str) -> str:
        """Return a registry's digest of `registry/name:tag`. Raises WebError."""
        registry, _slash, rest = reference.partition("/")
        name, _colon, tag = rest.rpartition(":")
        host = "registry-1.docker.io" if registry == _DOCKER_HUB else registry
        url = f"https://{host}/v2/{name}/manifests/{tag}"
        accept = {"Accept": _MANIFESTS}
        try:
            answer = self.get(url, accept, "HEAD")
        except WebError as error:
            challenge = getattr(error.__cause__, "headers", {}).get("WWW-Authenticate", "")
            if error.status != 401 or not challenge.startswith("Bearer "):
                raise
            accept["Authorization"] = f"Bearer {self._token(challenge, name)}"
            answer = self.get(url, accept, "HEAD")
        found = answer.headers.get("docker-content-digest", "")
        return found or "sha256:" + hashlib.sha256(self.get(url, accept).body).hexdigest()

    def _token(self, challenge: str, name: str) -> str:
        told = dict(_CHALLENGE.findall(challenge))
        if "realm" not in told:
            raise WebError(f"the registry asks for a token without an address for it: {challenge:.200}")
        query = {"scope": told.get("scope") or f"repository:{name}:pull"}
        if "service" in told:
            query["service"] = told["service"]
        answer = self.get(f"{told['realm']}?{urllib.parse.urlencode(query)}")
        try:
            content = json.loads(answer.body)
            return str(content.get("token") or content["access_token"])
        except (ValueError, KeyError, AttributeError) as error:
            raise WebError(f"{told['realm']} gave no token: {error}") from error

    def _get(self, url: str, headers: Mapping[str, str], method: str) -> Answer:
        request = urllib.request.Request(url, headers={"User-Agent": _AGENT, **headers}, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                names = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.geturl(), names, response.read())
        except urllib.error.HTTPError as error:
            raise WebError(f"{url} answers {error.code} {error.reason}", error.code) from error
        except urllib.error.URLError as error:
            raise WebError(f"{urllib.parse.urlsplit(url).netloc} can't be asked: {error.reason}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            text = str(error) or type(error).__name__
            raise WebError(f"{urllib.parse.urlsplit(url).netloc} can't be asked: {text}") from error


def shown(url: str) -> str:
    """Return an address for printing, without user and password."""
    return _CREDENTIALS.sub("//", url, count=1)


def split(url: str) -> tuple[str, dict[str, str]]:
    """Return an address without user and password, and a header that contains them. Raises WebError."""
    try:
        parts = urllib.parse.urlsplit(url)
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    # A ValueError may contain a part of the password, and a password with a slash is not recognized.
    if not valid:
        raise WebError(f"https://{url.rpartition('@')[2].removeprefix('https://')} is not a valid address")
    login, found, server = parts.netloc.rpartition("@")
    if not found:
        return url, {}
    user, _colon, password = login.partition(":")
    text = f"{urllib.parse.unquote(user)}:{urllib.parse.unquote(password)}"
    header = {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}
    return parts._replace(netloc=server).geturl(), header


def _took_no_connection(error: WebError) -> bool:
    cause = error.__cause__
    return not error.status and isinstance(cause, urllib.error.URLError) and isinstance(cause.reason, OSError)


def _seconds(text: str, default: float) -> float:
    try:
        return max(float(text), 0.0)
    except ValueError:
        return default
