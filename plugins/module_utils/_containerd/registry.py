# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether registries have an image, in containerd's order (mirrors first), without credentials.

Source: https://github.com/opencontainers/distribution-spec/blob/main/spec.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.parse import urlencode

FOUND, MISSING, UNKNOWN = "found", "missing", "unknown"
_HUB = "docker.io"
_HUB_SERVER = "registry-1.docker.io"
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


class Open(Protocol):
    """Sends a request; raises HTTPError for a status of 400 or more, and OSError without a response."""

    def __call__(self, url: str, method: str, headers: Mapping[str, str], validate_certs: bool) -> Any: ...


@dataclass(frozen=True)
class Image:
    registry: str
    name: str
    version: str

    @classmethod
    def parse(cls, reference: str) -> Image:
        """Parse an image reference; ``wandb/launch-agent`` means ``docker.io/wandb/launch-agent:latest``."""
        named, at, digest = reference.partition("@")
        host, slash, rest = named.partition("/")
        if not slash or not ("." in host or ":" in host or host == "localhost"):
            host, rest = _HUB, named
        name, colon, tag = rest.rpartition(":")
        if not colon:
            name, tag = rest, "latest"
        if host == _HUB and "/" not in name:
            name = f"library/{name}"
        return cls(host, name, digest if at else tag)


@dataclass(frozen=True)
class Answer:
    """``found``, ``missing`` or ``unknown``, and the responses of the servers."""

    state: str
    details: Sequence[str] = ()


def look_up_image(reference: str, mirrors: Sequence[Mapping[str, Any]], ask: Open) -> Answer:
    """Query the servers of an image. It is missing only if no server has it.

    ``mirrors`` have the form of containerd_registry_mirrors.
    """
    image = Image.parse(reference)
    states: dict[str, str] = {}
    for base, query, verify in _servers(image, mirrors):
        url = f"{base}/{image.name}/manifests/{image.version}{query}"
        state, answer = _manifest_state(url, image, verify, ask)
        if state == FOUND:
            return Answer(FOUND)
        states[f"{base}: {answer}"] = state
    return Answer(MISSING if set(states.values()) == {MISSING} else UNKNOWN, list(states))


def _servers(image: Image, mirrors: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    """Yield the API's address, the query, and whether to verify the certificate."""
    own = [mirror for mirror in mirrors if mirror["registry"] == image.registry]
    for mirror in own or [mirror for mirror in mirrors if mirror["registry"] == "_default"]:
        path = "" if mirror.get("override_path") else "/v2"
        # The CA is a file on the nodes. Only public data is requested, without credentials.
        verify = not (mirror.get("skip_verify") or mirror.get("ca"))
        yield f"{mirror['endpoint'].rstrip('/')}{path}", f"?{urlencode({'ns': image.registry})}", verify
    yield f"https://{_HUB_SERVER if image.registry == _HUB else image.registry}/v2", "", True


def _manifest_state(url: str, image: Image, verify: bool, ask: Open) -> tuple[str, str]:
    headers = {"Accept": _ACCEPT}
    try:
        try:
            ask(url, method="HEAD", headers=headers, validate_certs=verify)
        except HTTPError as error:
            token = _token(error, image, verify, ask)
            if not token:
                raise
            ask(url, method="HEAD", headers={**headers, "Authorization": f"Bearer {token}"}, validate_certs=verify)
    except HTTPError as error:
        return (MISSING if error.code == 404 else UNKNOWN), f"HTTP status {error.code}"
    except (OSError, ValueError) as error:
        return UNKNOWN, str(getattr(error, "reason", None) or error)
    return FOUND, ""


def _token(error: HTTPError, image: Image, verify: bool, ask: Open) -> str:
    """Return an anonymous token, empty if the server does not request one."""
    challenge = error.headers.get("WWW-Authenticate") or ""
    fields = dict(_CHALLENGE.findall(challenge))
    if error.code != 401 or not challenge.lower().startswith("bearer ") or "realm" not in fields:
        return ""
    query = {"scope": fields.get("scope") or f"repository:{image.name}:pull"}
    query |= {"service": fields["service"]} if "service" in fields else {}
    answer = ask(f"{fields['realm']}?{urlencode(query)}", method="GET", headers={}, validate_certs=verify)
    found = json.loads(answer.read())
    return str(found.get("token") or found.get("access_token") or "")
