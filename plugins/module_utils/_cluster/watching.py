# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists that are read once during a wait and kept current with the API's event streams.

A stream that ends is resumed. Without a usable stream, the list is read each time.
"""

from __future__ import annotations

import re
import selectors
import ssl
import time
from typing import Any

from .._errors import DomainError
from .._json import as_object, as_text, needed_text, read_object
from .api import Api, ApiError

# The length of a stream in seconds, and the delay after which it is considered dead.
_DURATION, _LATE = 30, 5
# After this many failed streams in a row, a wait only lists.
_TRIES = 3
# A stream that is refused after so many seconds is not tried again, because it delays everything else.
_SLOW = 2.0
# An object in etcd has at most 1.5 MiB; if a list's events exceed the second limit, it is read again.
_LARGEST_EVENT, _LARGEST_SUM = 8 * 1024 * 1024, 256 * 1024 * 1024
_PART = 64 * 1024
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,7})(?:[ \t;][^\r\n]{0,200})?")
_LONGEST_CHUNK_SIZE = 256


class Lines:
    """Complete lines in the chunks of an HTTP response (RFC 9112, 7.1). Raises DomainError for invalid data."""

    def __init__(self) -> None:
        self._chunks, self._text = b"", b""
        self.ended = False

    def feed(self, part: bytes) -> list[bytes]:
        """Return the lines completed by this data."""
        self._chunks += part
        while not self.ended:
            size, end, rest = self._chunks.partition(b"\r\n")
            if not end and len(size) <= _LONGEST_CHUNK_SIZE:
                break
            match = _CHUNK_SIZE.fullmatch(size)
            length = int(match[1], 16) if match else _LARGEST_EVENT + 1
            if length > _LARGEST_EVENT or rest[length : length + 2] not in (b"\r\n", b"\r", b""):
                raise _damaged("its chunks")
            self.ended = length == 0
            if self.ended or len(rest) < length + 2:
                break
            self._text, self._chunks = self._text + rest[:length], rest[length + 2 :]
        *lines, self._text = self._text.split(b"\n")
        if len(self._text) > _LARGEST_EVENT:
            raise _damaged("the length of a line")
        return lines


class _Stream:
    """Reads lines of a streamed response without blocking. Raises ApiError if that is not possible."""

    def __init__(self, answer: Any) -> None:
        self._answer, self._lines = answer, Lines()
        self.began, self.ended = time.monotonic(), False
        # Neither urllib3 nor http.client can read available data without waiting for more.
        connection, inner = getattr(answer, "connection", None), getattr(answer, "_fp", None)
        self._socket: Any = getattr(connection, "sock", None)
        self._source: Any = getattr(inner, "fp", None)
        chunked = answer.headers.get("Transfer-Encoding", "").lower() == "chunked"
        if not (chunked and isinstance(self._socket, ssl.SSLSocket) and hasattr(self._source, "read1")):
            answer.close()
            raise ApiError("Error while watching: the answer is not a stream")
        self._socket.settimeout(0)

    def fileno(self) -> int:
        return int(self._socket.fileno())

    def lines(self) -> list[bytes]:
        """Return the lines received since the last call. Raise DomainError for invalid chunks."""
        lines: list[bytes] = []
        size = 0
        while not self.ended:
            try:
                part = self._source.read1(_PART)
            except ssl.SSLWantReadError:
                break
            except OSError:
                part = b""
            lines += self._lines.feed(part)
            self.ended = self._lines.ended or not part
            size += len(part)
            if size > _LARGEST_SUM:
                raise _damaged("the size")
        return lines

    def close(self) -> None:
        self._answer.close()


class _Listing:
    """The objects of one list, by namespace and name. ``heard`` is the time of the last news from the API."""

    def __init__(self, api: Api, path: str, query: dict[str, str]) -> None:
        self._api, self._path, self._query = api, path, query
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        # The resourceVersion from which to watch, empty if the objects must be listed.
        self._version = ""
        self._size = self._failures = 0
        self.stream: _Stream | None = None
        self.heard = 0.0

    def items(self) -> list[dict[str, Any]]:
        self.read()
        if not self.resume():
            found, self._version = self._api.listed(self._path, **self._query)
            self._objects = {self._key(thing): thing for thing in found}
            self._size, self.heard = 0, time.monotonic()
        return [self._objects[key] for key in sorted(self._objects)]

    def resume(self) -> bool:
        """Open a stream if possible; return whether there is one."""
        if self.stream is None and self._version and self._failures < _TRIES:
            query = {**self._query, "resourceVersion": self._version, "timeoutSeconds": str(_DURATION)}
            asked = time.monotonic()
            try:
                self.stream = _Stream(self._api.stream(self._path, watch="1", allowWatchBookmarks="true", **query))
            except ApiError:
                slow = time.monotonic() - asked >= _SLOW
                self._failures = _TRIES if slow else self._failures + 1
        return self.stream is not None

    def read(self) -> bool:
        """Process received events; return whether there were any. An ended or damaged stream is closed."""
        stream = self.stream
        if stream is None:
            return False
        now = time.monotonic()
        try:
            lines = stream.lines()
            for line in lines:
                self._take(read_object(line.decode("utf-8", "replace"), "an event"))
                self._size, self.heard = self._size + len(line), now
            if self._size > _LARGEST_SUM:
                raise _damaged("the size")
        except DomainError:
            self.outdated()
            self._failures += 1
            return True
        if stream.ended:
            self.close()
            lasted = now - stream.began >= _DURATION / 2 or self.heard >= stream.began
            self._failures = 0 if lasted else self._failures + 1
        elif now - stream.began >= _DURATION + _LATE:
            self.close()
            self._failures = _TRIES
        return bool(lines)

    def outdated(self) -> None:
        """Discard the objects; they are listed again when they are next needed."""
        self.close()
        self._version = ""

    def close(self) -> None:
        if self.stream:
            self.stream.close()
        self.stream = None

    def _take(self, event: dict[str, Any]) -> None:
        kind, thing = event.get("type"), as_object(event.get("object"), "an event")
        version = needed_text(as_object(thing.get("metadata"), "an event"), "resourceVersion", "an event")
        if kind in ("ADDED", "MODIFIED"):
            self._objects[self._key(thing)] = thing
        elif kind == "DELETED":
            self._objects.pop(self._key(thing), None)
        elif kind != "BOOKMARK":
            # An ERROR event, usually because the version is too old.
            raise _damaged("an event")
        self._version = version

    def _key(self, thing: dict[str, Any]) -> tuple[str, str]:
        what = f"an object of {self._path}"
        meta = as_object(thing.get("metadata"), what)
        return as_text(meta.get("namespace")), needed_text(meta, "name", what)


class Watch:
    """Lists of one wait. A context manager, which closes all connections."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._listings: dict[tuple[str, frozenset[tuple[str, str]]], _Listing] = {}

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_error: object) -> None:
        for listing in self._listings.values():
            listing.close()

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """Return all objects of a list in order, like Api.items. Recent changes by this process may be missing."""
        key = (path, frozenset(query.items()))
        return self._listings.setdefault(key, _Listing(self._api, path, query)).items()

    def outdated(self) -> None:
        """Discard all lists after a change by this process; they are read again when they are next needed."""
        for listing in self._listings.values():
            listing.outdated()

    def heard_within(self, seconds: float) -> bool:
        """Return whether the API has confirmed all lists within this time."""
        return all(time.monotonic() - listing.heard <= seconds for listing in self._listings.values())

    def wait(self, seconds: float) -> None:
        """Wait until a list has changed, for at most ``seconds``."""
        with selectors.DefaultSelector() as selector:
            for listing in self._listings.values():
                # Data that arrived with the response's header is buffered, and select does not report it.
                if listing.resume() and listing.read():
                    seconds = 0
                if listing.stream:
                    selector.register(listing.stream, selectors.EVENT_READ)
            selector.select(seconds)
        for listing in self._listings.values():
            listing.read()


def _damaged(what: str) -> DomainError:
    return DomainError(f"Error while reading a stream of events: {what} can't be relied on")
