# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""registry_image_info with a small registry."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._containerd.registry import Image, look_up_image

IMAGE = "docker.io/wandb/launch-agent:0.31.0"
PATH = "/v2/wandb/launch-agent/manifests/0.31.0"


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        (IMAGE, ("docker.io", "wandb/launch-agent", "0.31.0")),
        ("wandb/launch-agent", ("docker.io", "wandb/launch-agent", "latest")),
        ("python:3.13", ("docker.io", "library/python", "3.13")),
        ("localhost:5000/a", ("localhost:5000", "a", "latest")),
        ("localhost/a:1", ("localhost", "a", "1")),
        ("ghcr.io/a/b:1@sha256:00", ("ghcr.io", "a/b", "sha256:00")),
    ],
)
def test_a_reference_has_three_parts(reference: str, parts: tuple[str, str, str]) -> None:
    image = Image.parse(reference)
    assert (image.registry, image.name, image.version) == parts


class Registry(BaseHTTPRequestHandler):
    """A registry with one image. It requires a token, which it gives to everyone."""

    status = 0
    url = ""
    asked: list[str]

    def do_HEAD(self) -> None:
        self.asked.append(self.path)
        if self.status:
            return self.answer(self.status)
        if self.headers.get("Authorization") != "Bearer open":
            where = f'Bearer realm="{self.url}/token",service="here",scope="repository:x:pull"'
            return self.answer(401, {"WWW-Authenticate": where})
        return self.answer(200 if self.path.partition("?")[0] == PATH else 404)

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.answer(200, {}, json.dumps({"token": "open"}).encode())

    def answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def registry() -> Iterator[tuple[str, type[Registry]]]:
    handler: Any = type("Handler", (Registry,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        handler.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield handler.url, handler
        server.shutdown()


def test_an_image_is_found_on_a_mirror_with_a_token(registry: Any, run_module: Any) -> None:
    url, handler = registry
    found = run_module("registry_image_info", {"image": IMAGE, "mirrors": [{"registry": "docker.io", "endpoint": url}]})
    assert (found["state"], found["details"]) == ("found", [])
    query = "?ns=docker.io"
    assert handler.asked == [PATH + query, "/token?scope=repository%3Ax%3Apull&service=here", PATH + query]
    default = [{"registry": "_default", "endpoint": f"{url}/v2/", "override_path": True}]
    assert run_module("registry_image_info", {"image": IMAGE, "mirrors": default})["state"] == "found"


class Asked:
    """Table of servers and their responses. Servers that are not in the table do not respond."""

    def __init__(self, **answers: int) -> None:
        self.answers, self.seen = answers, []  # type: ignore[var-annotated]

    def __call__(self, url: str, method: str, headers: Any, validate_certs: bool) -> None:
        from urllib.error import HTTPError

        self.seen.append((url, validate_certs))
        status = next((status for name, status in self.answers.items() if name in url.partition("?")[0]), 0)
        if not status:
            raise OSError("no route to host")
        if status >= 400:
            raise HTTPError(url, status, "no", {}, None)  # type: ignore[arg-type]


MIRROR = {"registry": "docker.io", "endpoint": "https://mirror.example.org"}


@pytest.mark.parametrize(
    ("answers", "mirrors", "state"),
    [
        ({"docker": 200}, [], "found"),
        ({"docker": 404}, [], "missing"),
        ({"docker": 401}, [], "unknown"),
        ({"docker": 429}, [], "unknown"),
        ({}, [], "unknown"),
        ({"mirror": 200}, [MIRROR], "found"),
        ({"mirror": 404, "docker": 200}, [MIRROR], "found"),
        ({"mirror": 404, "docker": 404}, [MIRROR], "missing"),
        # The mirror may have the image.
        ({"docker": 404}, [MIRROR], "unknown"),
        # The registry can't be reached from here, and the mirror lacks the image.
        ({"mirror": 404}, [MIRROR], "unknown"),
        ({"docker": 404}, [{**MIRROR, "registry": "ghcr.io"}], "missing"),
    ],
)
def test_an_image_is_only_missing_if_all_servers_lack_it(answers: dict[str, int], mirrors: Any, state: str) -> None:
    assert look_up_image(IMAGE, mirrors, Asked(**answers)).state == state


@pytest.mark.parametrize(
    ("mirror", "verified"), [({}, True), ({"skip_verify": True}, False), ({"ca": "/etc/ca.crt"}, False)]
)
def test_certificates_of_mirrors_are_verified_if_possible(mirror: Any, verified: bool) -> None:
    ask = Asked(docker=404)
    answer = look_up_image(IMAGE, [{**MIRROR, **mirror}], ask)
    assert [each[1] for each in ask.seen] == [verified, True]
    assert "https://mirror.example.org/v2: no route to host" in answer.details
