# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import threading
import urllib.request
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.credentials import (
    Credential,
    auth_conf,
    authorization,
    problems,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.dpkg import Database
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.fetch import FetchError, _Redirects, fetch
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.index import survey

HEADER = "Basic " + base64.b64encode(b"ci:S3CRET").decode()


class Server:
    """A server that requires a password, except for redirects to /page of another server. It records the headers."""

    def __init__(self) -> None:
        self.got: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.got.append(self.headers.get("Authorization", ""))
                _empty, place, target = (*self.path.split("/", 2), "")[:3]
                known = outer.got[-1] == HEADER
                self.send_response(302 if place == "to" else 200 if known else 401)
                if place == "to":
                    self.send_header("Location", f"http://{target}/page")
                self.end_headers()
                if known:
                    self.wfile.write(b"Package: cni\nVersion: 1\n")

            def log_message(self, *_words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    thread = threading.Thread(target=server.server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.server.shutdown()


@pytest.mark.parametrize(
    ("machine", "url", "fits"),
    [
        ("mirror.example", "https://mirror.example/debs/key", True),
        ("mirror.example", "https://mirror.example:8443/debs", True),
        ("mirror.example", "http://mirror.example/debs", False),
        ("mirror.example", "https://other.mirror.example/debs", False),
        ("mirror.example", "https://mirror.example.org/debs", False),
        ("http://mirror.example", "http://mirror.example/debs", True),
        ("http://mirror.example", "https://mirror.example/debs", False),
        ("mirror.example:8443", "https://mirror.example:8443/debs", True),
        ("mirror.example:8443", "https://mirror.example/debs", False),
        ("mirror.example/debs", "https://mirror.example/debs/key", True),
        ("mirror.example/debs", "https://mirror.example/other", False),
        ("mirror.example:8443/debs", "https://mirror.example:8443/debs/key", True),
        ("mirror.example", "file:///debs/key", False),
    ],
)
def test_credentials_match_the_same_addresses_as_in_apt(machine: str, url: str, fits: bool) -> None:
    assert authorization((Credential(machine, "ci", "S3CRET"),), url) == (HEADER if fits else "")


def test_the_first_matching_entry_counts() -> None:
    found = (Credential("m/other", "no", "no"), Credential("m", "ci", "S3CRET"), Credential("m/debs", "no", "no"))
    assert authorization(found, "https://m/debs") == HEADER
    assert auth_conf(found[:2]).splitlines()[1:] == [
        "machine m/other login no password no",
        "machine m login ci password S3CRET",
    ]
    assert "S3CRET" not in repr(found)


def test_fetch_and_survey_use_credentials(server: Server, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{server.port}"
    found = (Credential(url, "ci", "S3CRET"),)
    with pytest.raises(FetchError, match="the server answered 401"):
        fetch(url, "it")
    assert fetch(url, "it", credentials=found).startswith(b"Package")
    repository = {"name": "r", "uri": f"{url}/x", "suite": "/", "packages": {"cni": "1"}, "any": False}
    repository |= {"key_url": f"{url}/key", "fingerprints": ["0" * 40]}
    (refused,) = survey([repository], Database(iter(())), tmp_path, 5)
    assert "answered 401" in refused["error"] and refused["key"]["kind"] == "unreachable"
    server.got.clear()
    (answer,) = survey([repository], Database(iter(())), tmp_path, 5, found)
    # The response is neither gzip nor a key, but the server accepted the password.
    assert (
        set(server.got) == {HEADER} and "answered 401" not in answer["error"] and answer["key"]["kind"] == "unreadable"
    )


@pytest.mark.parametrize(("name", "sent"), [("127.0.0.1", HEADER), ("localhost", "")])
def test_a_redirect_to_another_host_gets_no_password(server: Server, name: str, sent: str) -> None:
    here = f"http://127.0.0.1:{server.port}"
    found = (Credential(here, "ci", "S3CRET"),)
    url = f"{here}/to/{name}:{server.port}"
    if sent:
        fetch(url, "it", credentials=found)
    else:
        with pytest.raises(FetchError, match="401"):
            fetch(url, "it", credentials=found)
    assert server.got == [HEADER, sent]


@pytest.mark.parametrize(
    ("former", "target", "followed"),
    [
        ("https://a.example/key", "http://a.example/key", False),
        ("https://a.example/key", "HTTP://b.example/key", False),
        ("https://a.example/key", "https://b.example/key", True),
        ("http://a.example/key", "http://b.example/key", True),
        ("http://a.example/key", "https://b.example/key", True),
    ],
)
def test_no_redirect_leads_away_from_encryption(former: str, target: str, followed: bool) -> None:
    opened = _Redirects(()), urllib.request.Request(former)
    arguments = (opened[1], None, 302, "Found", Message(), target)
    if followed:
        request = opened[0].redirect_request(*arguments)
        assert request and request.full_url == target
    else:
        with pytest.raises(ValueError, match="which is not encrypted"):
            opened[0].redirect_request(*arguments)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"machine": "http://[::1]:8080/debs/x"}, ""),
        ({"machine": "https://ci:S3CRET@mirror.example"}, "the machine of entry 1 must be a host"),
        ({"machine": "two words"}, "the machine of entry 1 must be a host"),
        ({"machine": "ftp://mirror.example"}, "the machine of entry 1 must be a host"),
        ({"password": "S3CRET two"}, "the password of entry 1 is empty or contains a space"),
        ({"username": ""}, "the username of entry 1 is empty"),
    ],
)
def test_entries_that_apt_cannot_parse_are_a_problem_that_shows_no_password(change: dict[str, str], words: str) -> None:
    found = list(problems([{"machine": "mirror.example", "username": "ci", "password": "S3CRET#1", **change}]))
    assert len(found) == bool(words) and all(words in text and "S3CRET" not in text for text in found)
