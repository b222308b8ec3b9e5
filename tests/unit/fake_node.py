# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that knows one node, which somebody else may change at the same time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.kubernetes.plugins.module_utils._nodes import merged


class FakeNode:
    """``conflicts``: how many patches come too late, because somebody changed the node before."""

    def __init__(self, name: str = "gpu1") -> None:
        self.name = name
        self.body: dict[str, Any] = {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {}}
        self.conflicts = 0
        self.patches = 0

    def patch(self, body: dict[str, Any]) -> int:
        """Apply a merge patch and return the status."""
        self.patches += 1
        version = int(self.body["metadata"]["resourceVersion"])
        if self.conflicts:
            self.conflicts -= 1
            self.body["metadata"]["resourceVersion"] = str(version + 1)
        if body["metadata"]["resourceVersion"] != self.body["metadata"]["resourceVersion"]:
            return 409
        self.body = merged(self.body, body)
        self.body["metadata"]["resourceVersion"] = str(version + 1)
        return 200

    @contextmanager
    def serve(self, directory: Path) -> Iterator[Path]:
        """Run the server; yields a kubeconfig file."""
        handler = type("Handler", (_Handler,), {"node": self})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        entry = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        known = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [entry],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(json.dumps(known))
        try:
            yield kubeconfig
        finally:
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    node: FakeNode

    def do_GET(self) -> None:
        self._answer(200 if self.path == f"/api/v1/nodes/{self.node.name}" else 404)

    def do_PATCH(self) -> None:
        assert self.headers["Content-Type"] == "application/merge-patch+json"
        self._answer(self.node.patch(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

    def _answer(self, status: int) -> None:
        data = json.dumps(self.node.body if status == 200 else {"message": f"status {status}"}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        pass
