# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import gzip
import io
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.dpkg import Database
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.fetch import FetchError, fetch, use_proxies
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.index import index_urls, read_packages, survey
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.key import fetch_key
from hypothesis import given
from hypothesis import strategies as st


class Server:
    """Responds with the content of ``pages``; the items of a list are returned one by one."""

    def __init__(self) -> None:
        self.pages: dict[str, list[tuple[int, bytes]]] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                answers = outer.pages.get(self.path, [(404, b"")])
                status, body = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.server.shutdown()


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_request_is_repeated_after_a_server_error(server: Server) -> None:
    server.pages["/key"] = [(503, b""), (200, b"key")]
    assert fetch(f"{server.url}/key", "the key") == b"key"
    assert server.asked == ["/key", "/key"]


@pytest.mark.parametrize(("status", "times"), [(404, 1), (500, 3)])
def test_a_refusal_is_reported_with_its_status(server: Server, status: int, times: int) -> None:
    server.pages["/key"] = [(status, b"")]
    with pytest.raises(FetchError, match=rf"fetching the key from {server.url}/key: the server answered {status}"):
        fetch(f"{server.url}/key", "the key")
    assert len(server.asked) == times


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "nonsense", "ftp:", "http://[::1", "file:///no/such/file"])
def test_any_invalid_address_is_one_error(url: str) -> None:
    with pytest.raises(FetchError, match="Error while fetching it from"):
        fetch(url, "it", timeout=2)


def test_the_proxy_is_used_except_for_exempt_hosts(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    environ: dict[str, str] = {}
    monkeypatch.setattr("os.environ", environ)
    server.pages["http://upstream.example/key"] = [(200, b"by proxy")]
    use_proxies({"http_proxy": server.url, "https_proxy": "", "no_proxy": ["other.example"]})
    assert environ == {"http_proxy": server.url, "no_proxy": "other.example"}
    assert fetch("http://upstream.example/key", "it") == b"by proxy"


@pytest.mark.parametrize(
    ("repository", "url"),
    [
        ({"uri": "https://h/v1.36/deb/", "suite": "/"}, "https://h/v1.36/deb/Packages.gz"),
        ({"uri": "https://h/flat", "suite": "./"}, "https://h/flat/Packages.gz"),
        ({"uri": "https://h", "suite": "sub/dir/"}, "https://h/sub/dir/Packages.gz"),
        (
            {"uri": "https://h/debian/", "suite": "bookworm", "component": "stable"},
            "https://h/debian/dists/bookworm/stable/binary-amd64/Packages.gz",
        ),
    ],
)
def test_the_index_is_found_for_suites_and_flat_repositories(repository: dict[str, str], url: str) -> None:
    assert index_urls(repository) == [url, url.removesuffix(".gz")]


def test_the_uncompressed_index_is_used_if_there_is_no_other(server: Server, tmp_path: Path) -> None:
    server.pages["/Packages"] = [(200, b"Package: cni\nVersion: 1\n")]
    repository = {"name": "r", "uri": server.url, "suite": "/", "packages": {"cni": "1"}, "any": False}
    (found,) = survey([repository], Database(iter(())), tmp_path, 5)
    assert found["available"] == {"cni": ["1"]} and not found["error"]
    assert server.asked == ["/Packages.gz", "/Packages"]


def test_the_order_of_fields_does_not_matter() -> None:
    text = "\nArchitecture: amd64\nVersion: 2\nPackage: cni\n\nPackage: cni\nVersion: 1\n\n\nPackage: x\nVersion: 1\n"
    assert read_packages(io.BytesIO(text.encode()), ["cni"]) == {"cni": ["2", "1"]}


@given(st.text())
def test_any_index_is_parsed_or_refused(text: str) -> None:
    read_packages(io.BytesIO(text.encode("utf-8", "surrogatepass")), ["cni"])


def bomb(unit: bytes, size: int) -> bytes:
    """Gzip data that decompresses to this many bytes, created without holding them in memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = unit * (2**20 // len(unit))
    return b"".join(packer.compress(block) for _number in range(size // len(block) + 1)) + packer.flush()


@pytest.mark.parametrize(
    ("unit", "complaint"),
    [
        (b"\0", "it has an entry that is larger than 1048576 bytes"),
        (b"Package: a\n", "it has an entry that is larger than 1048576 bytes"),
        (
            b"Package: a\nVersion: 1\nDescription: " + b"x" * 4000 + b"\n\n",
            "it is larger than 268435456 bytes",
        ),
    ],
)
def test_a_decompression_bomb_is_one_error_and_needs_little_memory(
    server: Server, tmp_path: Path, unit: bytes, complaint: str
) -> None:
    server.pages["/Packages.gz"] = [(200, bomb(unit, 300 * 2**20))]
    repository = {"name": "r", "uri": server.url, "suite": "/", "packages": {"cni": "1"}, "any": False}
    tracemalloc.start()
    try:
        (found,) = survey([repository], Database(iter(())), tmp_path, 5)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found["error"] == f"{server.url}/Packages.gz: {complaint}" and not found["available"]
    assert peak < 128 * 2**20


@pytest.mark.parametrize("name", ["Packages.gz", "Packages"])
def test_too_many_versions_are_an_error(server: Server, tmp_path: Path, name: str) -> None:
    index = b"".join(b"Package: cni\nVersion: %d\n\n" % number for number in range(10_001))
    server.pages[f"/{name}"] = [(200, gzip.compress(index) if name.endswith("gz") else index)]
    repository = {"name": "r", "uri": server.url, "suite": "/", "packages": {"cni": "1"}, "any": False}
    (found,) = survey([repository], Database(iter(())), tmp_path, 5)
    assert found["error"] == f"{server.url}/{name}: it has more than 10000 versions of cni"


def test_an_oversized_key_is_an_error(server: Server) -> None:
    server.pages["/key"] = [(200, b"\x99" * (2**20 + 1))]
    with pytest.raises(FetchError, match="it is larger than 1048576 bytes"):
        fetch_key(f"{server.url}/key", "it", ["0" * 40], 0)
