# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Users and passwords of package repositories, in apt's format (apt_auth.conf(5))."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from .._basic_auth import basic

CREDENTIALS_OPTION: dict[str, dict[str, Any]] = {
    "credentials": {
        "type": "list",
        "elements": "dict",
        "no_log": False,
        "options": {
            "machine": {"type": "str", "required": True},
            "username": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
        },
    },
}
_MACHINE = re.compile(r"(?:https?://)?(?:\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(?::[0-9]+)?(?:/[^\s@]*)?")


@dataclass(frozen=True)
class Credential:
    """A credential; ``machine`` is ``[protocol://]host[:port][/path]``, without a protocol for https only."""

    machine: str
    username: str
    password: str = field(repr=False)

    def fits(self, url: str) -> bool:
        address = urlsplit(url)
        protocol, _separator, machine = self.machine.rpartition("://")
        if (protocol or "https") != address.scheme:
            return False
        if "/" in machine:
            return f"{address.netloc}{address.path}".startswith(machine)
        return machine in (address.netloc, address.hostname)


Credentials = tuple[Credential, ...]


def read_credentials(entries: Iterable[Mapping[str, str]] | None) -> Credentials:
    return tuple(Credential(entry["machine"], entry["username"], entry["password"]) for entry in entries or ())


def auth_conf(credentials: Credentials) -> str:
    """Return the text of a file in auth.conf.d, empty without credentials."""
    lines = [f"machine {each.machine} login {each.username} password {each.password}\n" for each in credentials]
    return "# Managed by gpulab.kubernetes, changes are overwritten.\n" + "".join(lines) if lines else ""


def authorization(credentials: Credentials, url: str) -> str:
    """Return the Authorization header for an address from the first matching credential, empty if none matches."""
    for each in credentials:
        if each.fits(url):
            return basic(each.username, each.password)
    return ""


def problems(entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield errors in credentials, as ends of sentences that contain no credentials."""
    for number, entry in enumerate(entries, start=1):
        if not _MACHINE.fullmatch(str(entry["machine"])):
            yield (
                f"the machine of entry {number} must be a host with or without a protocol, a port and a path, such as "
                "mirror.example.org or http://mirror.example.org:8080/debs"
            )
        for name in ("username", "password"):
            if not re.fullmatch(r"\S+", str(entry[name])):
                yield f"the {name} of entry {number} is empty or contains a space, which apt can't read"
