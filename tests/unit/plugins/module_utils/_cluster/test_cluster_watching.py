# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watches of servers that stream, disconnect, send invalid data or hang."""

from __future__ import annotations

import contextlib
import gc
import json
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster import api as client
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster import waiting, watching
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.api import Api
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.objects import name
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.waiting import until
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.watching import Lines, Watch
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from apiserver import EventStream, serving
from hypothesis import given
from hypothesis import strategies as st

PODS = "/api/v1/namespaces/team/pods"
Step = Callable[[EventStream], None]


def pod(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team"}, "status": status}


def event(kind: str, thing: dict[str, Any], version: int = 11) -> Step:
    return lambda stream: stream.event(kind, thing, version)


def raw(data: bytes) -> Step:
    return lambda stream: stream.send(data)


def end(stream: EventStream) -> None:
    stream.send(b"")


def hang(stream: EventStream) -> None:
    stream.closed_within(20)


@dataclass
class Script:
    """Lists return ``pods`` at version 10; ``streams`` are the responses to watches, the last of which is repeated."""

    kubeconfig: Path = Path()
    pods: list[str] = field(default_factory=lambda: ["a"])
    streams: list[Any] = field(default_factory=lambda: [[hang]])
    lists: int = 0
    versions: list[str] = field(default_factory=list)
    queries: list[dict[str, list[str]]] = field(default_factory=list)

    def watch(self) -> Watch:
        return Watch(Api(str(self.kubeconfig)))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "watch" not in query:
            self.script.lists += 1
            self._answer(
                200, {"metadata": {"resourceVersion": "10"}, "items": [pod(each) for each in self.script.pods]}
            )
            return
        self.script.versions += query["resourceVersion"]
        self.script.queries.append(query)
        steps = self.script.streams.pop(0) if len(self.script.streams) > 1 else self.script.streams[0]
        if isinstance(steps, tuple):
            self._answer(*steps)
            return
        self.close_connection = True
        with contextlib.suppress(OSError):
            if callable(steps):
                steps(self)
                return
            stream = EventStream(self)
            for step in steps:
                step(stream)

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    found = Script()
    with serving(type("Scripted", (Handler,), {"script": found}), tmp_path) as found.kubeconfig:
        yield found


def names(watch: Watch, **query: str) -> list[str]:
    return [name(each) for each in watch.items(PODS, **query)]


def eventually(watch: Watch, wanted: list[str]) -> list[str]:
    for _each in range(20):
        if (found := names(watch)) == wanted:
            break
        watch.wait(0.2)
    return found


def test_a_list_is_read_once_and_updated_by_events(script: Script) -> None:
    script.streams = [
        [
            event("ADDED", pod("c"), 11),
            event("ADDED", pod("b"), 12),
            event("MODIFIED", pod("a", phase="Running"), 13),
            event("DELETED", pod("c"), 14),
            event("BOOKMARK", {}, 20),
            hang,
        ]
    ]
    with script.watch() as watch:
        assert names(watch, labelSelector="app=x") == ["a"] and script.versions == []
        watch.wait(2)
        for _each in range(20):
            if len(names(watch, labelSelector="app=x")) == 2:
                break
            watch.wait(0.1)
        assert [each["status"] for each in watch.items(PODS, labelSelector="app=x")] == [{"phase": "Running"}, {}]
        assert (script.lists, script.versions) == (1, ["10"])
    [query] = script.queries
    assert query["labelSelector"] == ["app=x"] and query["allowWatchBookmarks"] == ["true"]
    assert query["timeoutSeconds"] == ["30"]


@pytest.mark.parametrize("last", [end, lambda _stream: None], ids=["ends", "is cut"])
def test_an_ended_stream_is_resumed_at_its_last_version(script: Script, last: Step) -> None:
    script.streams = [[event("ADDED", pod("b"), 15), last], [event("BOOKMARK", {}, 17), last], [hang]]
    with script.watch() as watch:
        assert eventually(watch, ["a", "b"]) == ["a", "b"]
        for _each in range(10):
            watch.wait(0.05)
        assert names(watch) == ["a", "b"]
    assert (script.lists, script.versions) == (1, ["10", "15", "17"])


EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired"}
DAMAGES: dict[str, Any] = {
    "the version is too old": [event("ERROR", EXPIRED), end],
    "the version is too old, as an answer": (410, EXPIRED),
    "garbage": [raw(b"<html>\n"), hang],
    "another list": (200, {"items": [], "metadata": {"resourceVersion": "11"}}),
    "no right to watch": (403, {"message": "forbidden"}),
    "the API is in trouble": (503, {}),
    "an unknown event": [event("RENAMED", pod("a")), hang],
    "no object": [raw(b'{"type": "ADDED", "object": []}\n'), hang],
    "no version": [raw(b'{"type": "ADDED", "object": {"metadata": {"name": "x"}}}\n'), hang],
    "no name": [event("ADDED", {}), hang],
    "deep nesting": [raw(b"[" * 100_000 + b"\n"), hang],
    "a line without an end": [*[raw(b"x" * 1000)] * 20, hang],
    "a chunk too large": [lambda stream: stream._handler.wfile.write(b"fffffff\r\nx"), hang],
    "no chunks": [lambda stream: stream._handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n"), hang],
    "it ends at once": [end],
    "it is cut at once": [],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_after_any_failure_of_the_stream_the_current_objects_are_returned(
    script: Script, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(watching, "_LARGEST_EVENT", 10_000)
    script.streams = [DAMAGES[damage]]
    with script.watch() as watch:
        assert names(watch) == ["a"]
        watch.wait(0.1)
        script.pods = ["a", "b"]
        assert eventually(watch, ["a", "b"]) == ["a", "b"]
        for _each in range(6):
            names(watch)
            watch.wait(0.1)
    # After a few attempts, each of which costs one request more than a list, watching is given up.
    assert len(script.versions) == 3


def test_after_a_single_failure_the_list_is_read_and_watched_again(script: Script) -> None:
    script.streams = [DAMAGES["the version is too old"], [event("ADDED", pod("c"), 30), hang]]
    with script.watch() as watch:
        assert names(watch) == ["a"]
        watch.wait(1)
        script.pods = ["a", "b"]
        assert eventually(watch, ["a", "b", "c"]) == ["a", "b", "c"]
    assert (script.lists, script.versions) == (2, ["10", "10"])


def test_a_stream_that_outlives_its_timeout_is_closed(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_DURATION", 0)
    monkeypatch.setattr(watching, "_LATE", 0.3)
    with script.watch() as watch:
        assert names(watch) == ["a"]
        watch.wait(0.1)
        script.pods = ["b"]
        assert names(watch) == ["a"]
        assert eventually(watch, ["b"]) == ["b"]
    assert script.versions == ["10"]


def test_lists_of_several_kinds_wake_the_same_wait(script: Script) -> None:
    script.streams = [[hang], [lambda _stream: time.sleep(0.3), event("ADDED", pod("b")), hang]]
    with script.watch() as watch:
        names(watch), names(watch, fieldSelector="x=y")
        began = time.monotonic()
        watch.wait(10)
        assert 0.2 < time.monotonic() - began < 5
        assert sorted([*names(watch), *names(watch, fieldSelector="x=y")]) == ["a", "a", "b"]


def test_events_received_with_the_response_header_end_a_wait(script: Script) -> None:
    thing = {"metadata": {"name": "b", "namespace": "team", "resourceVersion": "11"}}
    line = json.dumps({"type": "ADDED", "object": thing}).encode() + b"\n"

    def answer(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(line))
        time.sleep(8)

    script.streams = [answer]
    with script.watch() as watch:
        names(watch)
        began = time.monotonic()
        watch.wait(8)
        assert time.monotonic() - began < 5
        assert names(watch) == ["a", "b"]


@pytest.mark.parametrize("part", [b"", b"x"], ids=["no header", "a header byte by byte"])
def test_a_stream_that_is_buffered_on_the_way_is_tried_once(
    script: Script, monkeypatch: pytest.MonkeyPatch, part: bytes
) -> None:
    monkeypatch.setattr(client, "_SHORTEST_TRY", 0.5)
    monkeypatch.setattr(watching, "_SLOW", 0.4)

    def answer(handler: Handler) -> None:
        for _each in range(50):
            handler.wfile.write(part)
            time.sleep(0.1)

    script.streams = [answer]
    began = time.monotonic()
    with script.watch() as watch:
        for _each in range(4):
            assert names(watch) == ["a"]
            watch.wait(0.1)
    assert time.monotonic() - began < 3
    assert script.versions == ["10"]


def test_own_changes_are_read_from_a_list(script: Script) -> None:
    with script.watch() as watch:
        names(watch)
        watch.wait(0.05)
        script.pods = ["b"]
        watch.outdated()
        assert names(watch) == ["b"]


def test_no_connection_and_no_thread_is_left(script: Script) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        before = threading.active_count()
        with pytest.raises(KeyboardInterrupt), script.watch() as watch:
            names(watch)
            watch.wait(0.05)
            [stream] = [listing.stream for listing in watch._listings.values()]
            raise KeyboardInterrupt
        assert stream is not None and stream.fileno() == -1
        # One thread is the server's, which ends after the disconnect.
        assert threading.active_count() <= before + 1
        gc.collect()
    assert not [each for each in caught if "socket" in str(each.message)]


def test_a_list_that_was_not_confirmed_for_long_is_read_again(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LONGEST_PAUSE", 0.2)
    looks: list[list[str]] = []
    with script.watch() as watch:

        def look() -> list[str]:
            looks.append(names(watch))
            if len(looks) == 3:
                # No event reports this change, because the stream hangs.
                script.pods = ["b"]
            return looks[-1]

        assert until(look, lambda _found: False, 0.9, watch=watch) == ["b"]
    assert looks[-2] == ["a"] and script.lists == 2


def test_a_wait_that_ends_at_the_first_check_costs_one_list(script: Script) -> None:
    with script.watch() as watch:
        assert until(lambda: names(watch), bool, 60, watch=watch) == ["a"]
    assert (script.lists, script.versions) == (1, [])


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


LINES = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=5)


@given(LINES, st.lists(st.integers(0, 200)), st.lists(st.integers(0, 400)))
def test_lines_do_not_depend_on_how_the_stream_is_split(
    lines: list[bytes], chunks: list[int], parts: list[int]
) -> None:
    def cut(data: bytes, places: list[int]) -> list[bytes]:
        ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
        return [data[first:last] for first, last in zip(ends, ends[1:])]

    text = b"".join(line + b"\n" for line in lines)
    sent = b"".join(chunk(each) for each in cut(text, chunks)) + chunk(b"")
    found, reader = [], Lines()
    for part in cut(sent, parts):
        found += reader.feed(part)
    assert (found, reader.ended) == (lines, True)


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_are_lines_or_an_error(parts: list[bytes]) -> None:
    reader = Lines()
    with contextlib.suppress(DomainError):
        for part in parts:
            assert all(b"\n" not in line for line in reader.feed(part))
