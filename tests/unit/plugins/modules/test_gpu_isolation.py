# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module against an API with one node, which somebody else may change at the same time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._gpu_isolation import TAINT_KEY, merged

NODE = "/api/v1/nodes/gpu1"


class Cluster:
    """One node. ``conflicts``: how many patches come too late, because somebody changed the node before."""

    def __init__(self) -> None:
        self.node: dict[str, Any] = {"metadata": {"name": "gpu1", "resourceVersion": "1"}, "spec": {}}
        self.conflicts = 0
        self.patches = 0

    def patch(self, body: dict[str, Any]) -> int:
        self.patches += 1
        version = int(self.node["metadata"]["resourceVersion"])
        if self.conflicts:
            self.conflicts -= 1
            self.node["metadata"]["resourceVersion"] = str(version + 1)
        if body["metadata"]["resourceVersion"] != self.node["metadata"]["resourceVersion"]:
            return 409
        self.node = merged(self.node, body)
        self.node["metadata"]["resourceVersion"] = str(version + 1)
        return 200


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def isolate(cluster: Cluster, run_module: Any, tmp_path: Path) -> Iterator[Any]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(200 if self.path == NODE else 404)

        def do_PATCH(self) -> None:
            assert self.headers["Content-Type"] == "application/merge-patch+json"
            self.answer(cluster.patch(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

        def answer(self, status: int) -> None:
            data = json.dumps(cluster.node if status == 200 else {"message": f"status {status}"}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    entry = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    known = {"users": [{"name": "u", "user": {"token": "t"}}], "clusters": [entry], "current-context": "x"}
    known["contexts"] = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
    (tmp_path / "kubeconfig").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **known}))

    def run(check: bool = False, **arguments: Any) -> dict[str, Any]:
        common = {"kubeconfig": str(tmp_path / "kubeconfig"), "name": "gpu1"}
        result: dict[str, Any] = run_module("gpu_isolation", {**common, **arguments}, check=check)
        return result

    yield run
    server.shutdown()
    server.server_close()


def test_there_and_back_and_each_a_second_time(cluster: Cluster, isolate: Any) -> None:
    predicted = isolate(check=True, reason="Xid 79")
    assert (predicted["changed"], predicted["isolated"], cluster.patches) == (True, True, 0)
    first = isolate(reason="Xid 79")
    assert (first["changed"], first["isolation"]["reason"]) == (True, "Xid 79")
    for key in ("taints", "cordoned"):
        assert first["diff"]["after"][key] == predicted["diff"]["after"][key]
    assert cluster.node["spec"] == {"taints": [{"key": TAINT_KEY, "value": "true", "effect": "NoSchedule"}]}
    assert not isolate(reason="Xid 79")["changed"]
    asked = isolate(check=True, state="returned")
    assert (asked["changed"], asked["isolation"]["reason"], cluster.patches) == (True, "Xid 79", 1)
    back = isolate(state="returned")
    assert (back["changed"], back["isolated"], cluster.node["spec"]) == (True, False, {})
    again = isolate(state="returned")
    assert (again["changed"], again["isolation"], cluster.patches) == (False, {}, 2)


def test_by_cordon(cluster: Cluster, isolate: Any) -> None:
    assert isolate(policy="cordon")["diff"]["after"]["cordoned"]
    assert cluster.node["spec"] == {"unschedulable": True}


@pytest.mark.parametrize(("conflicts", "failed"), [(2, False), (9, True)])
def test_somebody_else_changes_the_node(cluster: Cluster, isolate: Any, conflicts: int, failed: bool) -> None:
    cluster.conflicts = conflicts
    assert isolate(reason="Xid 79")["failed"] is failed


def test_no_such_node(isolate: Any) -> None:
    result = isolate(name="gpu9")
    assert result["failed"] and "the cluster has no node of this name" in result["msg"]
