# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of an apt repository: select the expected ones in a file, and check that they are valid."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .._errors import DomainError
from .._files import read_file
from .credentials import Credentials
from .fetch import fetch
from .keyring import KeyFormatError, armored, public_keys

# How long before its expiry a key is fetched again; owners renew their keys some weeks ahead.
RENEW_S = 60 * 86400
# How long before its expiry a key that can't be renewed is reported.
WARN_S = 30 * 86400
# Bytes; Debian's whole keyring has 60 kB.
_LARGEST = 1024 * 1024
_FINGERPRINT = re.compile(r"[0-9A-F]{40}\Z")


class AptKeyError(DomainError):
    """A key can't be used. Field ``kind`` is unreadable, unexpected or expired; ``cause`` is a short reason."""


@dataclass(frozen=True)
class AptKey:
    """The keys of one file. ``expires`` is the expiry of the last one (Unix seconds, None for never)."""

    text: str
    fingerprints: tuple[str, ...]
    expires: int | None

    def ends_by(self, moment: float) -> bool:
        return self.expires is not None and self.expires <= moment

    def outlives(self, other: AptKey) -> bool:
        return other.expires is not None and not self.ends_by(other.expires)


def read_pins(values: Iterable[str]) -> tuple[str, ...]:
    """Return fingerprints in uniform spelling. Raise AptKeyError."""
    pins = []
    for value in values:
        pin = re.sub(r"\s", "", str(value)).upper()
        if not _FINGERPRINT.match(pin):
            raise AptKeyError(
                f"Error while reading key_fingerprints: {value!r} is not a fingerprint. Write all 40 hex digits, as "
                "`gpg --show-keys FILE` prints them"
            )
        pins.append(pin)
    return tuple(dict.fromkeys(pins))


def unpinned(url: str, pins: Collection[str]) -> str:
    """Return what is wrong with an unencrypted address without expected fingerprints; its key could be replaced."""
    scheme = url.partition(":")[0].lower()
    return f"key_fingerprints is empty, and {url} is not encrypted" if scheme == "http" and not pins else ""


def check_pins(url: str, owner: str, pins: Collection[str]) -> None:
    """Raise AptKeyError for an unencrypted address without expected fingerprints."""
    cause = unpinned(url, pins)
    if cause:
        raise AptKeyError(
            f"Error while fetching the key of {owner}: {cause}, so anyone on the way could send a key of their own. "
            "Add the fingerprint that the repository's owner publishes to key_fingerprints (in the roles: the variable "
            "that ends in _repository_key_fingerprints), or use an https address",
            kind="unexpected",
            cause=cause,
        )


def stored_key(path: Path) -> AptKey | None:
    """Return the key in a file, None if it is missing or invalid."""
    data = read_file(path)
    try:
        return _read(data) if data is not None else None
    except KeyFormatError:
        return None


def ending_keys(directory: Path, now: float) -> list[dict[str, Any]]:
    """Return this collection's keys that expire soon, with the same fields as certificates."""
    found = []
    for path in sorted(directory.glob("gpulab-*.asc")):
        key = stored_key(path)
        if key and key.expires is not None and key.ends_by(now + RENEW_S):
            moment = datetime.fromtimestamp(key.expires, timezone.utc)
            days = int((key.expires - now) // 86400)
            found.append({"name": path.stem, "expires": moment.strftime("%Y-%m-%dT%H:%M:%SZ"), "days_left": days})
    return found


def fetch_key(
    url: str,
    owner: str,
    pins: Collection[str],
    now: float,
    timeout: float = 30,
    credentials: Credentials = (),
) -> AptKey:
    """Return the expected keys at an address. Raise FetchError or AptKeyError."""
    check_pins(url, owner, pins)
    data = fetch(url, f"the key of {owner}", timeout, credentials, _LARGEST)
    try:
        found = _read(data)
        key = _read(data, set(pins) & set(found.fingerprints)) if pins else found
    except KeyFormatError as error:
        raise AptKeyError(
            f"Error while reading the key of {owner} from {url}: {error}. Check the address; a proxy may have "
            "responded instead of the server",
            kind="unreadable",
            cause=str(error),
        ) from error
    doing = f"Error while fetching the key of {owner} from {url}"
    if pins and not set(pins) & set(found.fingerprints):
        cause = f"its fingerprint is {_listing(found.fingerprints, 'and')}, expected {_listing(pins, 'or')}"
        raise AptKeyError(
            f"{doing}: {cause}. Compare it with the key that the repository's owner publishes. If it is correct, add "
            "it to key_fingerprints (in the roles: the variable that ends in _repository_key_fingerprints)",
            kind="unexpected",
            cause=cause,
        )
    if key.ends_by(now):
        cause = f"it expired on {date(key.expires)}"
        raise AptKeyError(
            f"{doing}: {cause}. Check this host's clock, which shows {date(now)}. If it is correct, the repository's "
            "owner must publish a renewed key",
            kind="expired",
            cause=cause,
        )
    return key


def date(moment: float | None) -> str:
    """Return a date as text, empty for None."""
    return "" if moment is None else datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d")


def _read(data: bytes, only: Collection[str] = ()) -> AptKey:
    text = armored(data, only)
    keys = public_keys(text.encode())
    ends = [key.expires for key in keys]
    expires = None if None in ends else max(end for end in ends if end is not None)
    return AptKey(text, tuple(key.fingerprint for key in keys), expires)


def _listing(values: Iterable[str], word: str) -> str:
    return f" {word} ".join(values)
