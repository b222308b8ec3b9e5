# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check mirrors and credentials of registries; problems are ends of sentences that contain no password. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

DEFAULT = "_default"
# Also used as the name of a directory.
_REGISTRY = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*)(?::[0-9]{1,5})?", re.ASCII)
_PRINTABLE = re.compile(r"[!-~]+")


def mirror_problems(mirrors: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for number, entry in enumerate(mirrors, start=1):
        if entry["registry"] != DEFAULT and not _is_registry(entry["registry"]):
            yield (
                f"the registry of entry {number} must be a host with or without a port, such as docker.io, or "
                f"{DEFAULT} for all others"
            )
        endpoint = str(entry["endpoint"])
        if "@" in endpoint.partition("://")[2].partition("/")[0]:
            yield (
                f"the endpoint of entry {number} contains a user or a password, which must be in "
                "containerd_registry_credentials"
            )
        elif not _is_endpoint(endpoint):
            yield f"the endpoint of entry {number} must be a URL, such as https://mirror.example.org:5000"


def credential_problems(credentials: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for number, entry in enumerate(credentials, start=1):
        if not _is_registry(entry["registry"]):
            yield f"the registry of entry {number} must be a host with or without a port, such as nvcr.io"
        if not str(entry["username"]) or ":" in str(entry["username"]):
            yield f"the username of entry {number} is empty or contains a colon"
        if not str(entry["password"]):
            yield f"the password of entry {number} is empty"
    registries = [str(entry["registry"]) for entry in credentials]
    yield from (f"{name} occurs twice" for name in sorted(set(registries)) if registries.count(name) > 1)


def _is_registry(value: Any) -> bool:
    return bool(_REGISTRY.fullmatch(str(value)))


def _is_endpoint(text: str) -> bool:
    try:
        url = urlsplit(text)
        known = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False
    return known and bool(_PRINTABLE.fullmatch(text)) and not (url.query or url.fragment) and _is_registry(url.netloc)
