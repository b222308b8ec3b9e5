# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small API server over HTTP with a scheduler and kubelets that exist in name only, for tests of API modules.

It knows nodes, namespaces, pods with logs, Services, ConfigMaps (server-side apply) and the proxy to agnhost's /dial.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

GPU = "nvidia.com/gpu"
END = "acceptance: end of list"
Json = dict[str, Any]


@dataclass
class FakeNode:
    """A node; ``given`` are the UUIDs that its kubelet hands out, ``gpus`` those that its hardware has."""

    name: str
    gpus: list[str] = field(default_factory=list)
    model: str = "Tesla T4"
    allocatable: int | None = None
    ready: bool = True
    leaks: list[str] = field(default_factory=list)
    labels: dict[str, str] | None = None
    boot: str = "boot-1"
    given: list[str] | None = None
    metadata: Json = field(default_factory=dict)
    taints: list[Json] = field(default_factory=list)
    conflicts: int = 0

    def offered(self) -> int:
        return len(self.gpus) if self.allocatable is None else self.allocatable

    def body(self) -> Json:
        labels = {
            "nvidia.com/gpu.product": self.model.replace(" ", "-"),
            "nvidia.com/gpu.count": str(len(self.gpus)),
            "nvidia.com/cuda.driver-version.full": "580.1",
        }
        return {
            "metadata": {
                "name": self.name,
                "uid": f"uid-{self.name}",
                "labels": (labels if self.gpus else {}) if self.labels is None else self.labels,
                **self.metadata,
            },
            "spec": {"taints": self.taints},
            "status": {
                "capacity": {GPU: str(len(self.gpus))},
                "allocatable": {GPU: str(self.offered())},
                "conditions": [{"type": "Ready", "status": str(self.ready), "message": "kubelet stopped posting"}],
                "nodeInfo": {
                    "bootID": self.boot,
                    "osImage": "Debian 13",
                    "kernelVersion": "6.12",
                    "containerRuntimeVersion": "containerd://2.3.6",
                    "kubeletVersion": "v1.36.4",
                },
            },
        }


class FakeCluster:
    """State and behaviour; tests set the attributes before, and read them after a module ran."""

    def __init__(self, *nodes: FakeNode) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.namespaces: dict[str, Json] = {"kube-system": {"metadata": {"name": "kube-system"}}}
        self.pods: dict[str, Json] = {}
        self.objects: dict[str, Json] = {}
        self.daemonsets: list[Json] = []
        self.created: list[str] = []
        self.most_gpu_pods = 0
        self.check_output = "Test PASSED"
        self.check_fails = False
        self.pull_error = ""
        self.deaf: set[tuple[str, str]] = set()
        self.no_dns = False
        self.answers_for_all = ""
        self.extra_gpu = ""
        self.plugin_log = ""
        self.late_logs = 0
        self.snatch: Json | None = None
        self.takeover = False
        self.lock = threading.Lock()

    def user_pod(self, name: str, node: str, gpus: int = 1, phase: str = "Running") -> Json:
        pod: Json = {
            "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"limits": {GPU: str(gpus)}}}]},
            "status": {"phase": phase},
        }
        self.pods[f"team/{name}"] = pod
        return pod

    # What a scheduler and a kubelet do with a new pod.
    def start(self, pod: Json) -> None:
        kind = pod["metadata"]["labels"]["acceptance"]
        term = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        node = self.nodes[term["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]]
        images = {"image": pod["spec"]["containers"][0]["image"]}
        pod["metadata"]["uid"] = f"uid-{pod['metadata']['name']}"
        if kind == "gpu" and self.snatch is not None:
            self.pods["team/snatch"], self.snatch = self.snatch, None
        if kind == "gpu" and self._held(node.name) >= node.offered():
            message = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            pod["status"] = {"phase": "Pending", "conditions": [condition]}
            return
        pod["spec"]["nodeName"] = node.name
        if self.pull_error:
            waiting = {"reason": "ImagePullBackOff", "message": self.pull_error}
            pod["status"] = {
                "phase": "Pending",
                "containerStatuses": [{"name": "c", **images, "state": {"waiting": waiting}}],
            }
        elif kind == "gpu" and self.check_fails:
            ended = {"exitCode": 1, "reason": "Error"}
            statuses = [{"name": "check", **images, "state": {"terminated": ended}}]
            pod["status"] = {"phase": "Failed", "initContainerStatuses": statuses}
        else:
            ready = {"type": "Ready", "status": "True"}
            phase = "Succeeded" if kind == "isolation" else "Running"
            pod["status"] = {"phase": phase, "podIP": f"10.244.0.{len(self.pods) + 1}", "conditions": [ready]}
            if kind == "gpu":
                pool = list(node.gpus if node.given is None else node.given)
                pod["gpu"] = pool[self._held(node.name, ours=True) % len(pool)]

    def _held(self, node: str, ours: bool = False) -> int:
        found = 0
        for pod in self.pods.values():
            limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
            bound = pod["spec"].get("nodeName") == node and pod["status"].get("phase") not in ("Succeeded", "Failed")
            if bound and not (ours and pod["metadata"]["namespace"] == "team"):
                found += int(limits.get(GPU, 0))
        return found

    def log(self, pod: Json, container: str) -> str:
        kind = pod["metadata"].get("labels", {}).get("acceptance")
        if kind is None:
            return self.plugin_log
        if kind == "isolation" and self.late_logs:
            self.late_logs -= 1
            return ""
        if kind == "isolation":
            return "\n".join([*self.nodes[pod["spec"]["nodeName"]].leaks, END])
        if container == "check":
            return "Test FAILED" if self.check_fails else self.check_output
        if "gpu" not in pod:
            return ""
        model = self.nodes[pod["spec"]["nodeName"]].model
        return "\n".join([f"{uuid}, {model}" for uuid in [pod["gpu"], self.extra_gpu] if uuid] + [END])

    def dial(self, pod: Json, host: str) -> tuple[int, Json | str]:
        here = pod["spec"]["nodeName"]
        if host == "10.96.0.99":
            return 200, {"responses": ["network-any"]}
        if host.endswith(".svc"):
            return (400, f"lookup {host}: no such host") if self.no_dns else (200, {"responses": ["network-any"]})
        there = next(each for each in self.pods.values() if each["status"].get("podIP") == host)
        if (here, there["spec"]["nodeName"]) in self.deaf:
            return 200, {"errors": ["dial tcp: i/o timeout"]}
        return 200, {"responses": [self.answers_for_all or there["metadata"]["name"]]}

    @contextmanager
    def serve(self, directory: Path) -> Iterator[Path]:
        """Run the server; yields a kubeconfig file."""
        handler = type("Handler", (_Handler,), {"cluster": self})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        try:
            yield kubeconfig
        finally:
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    cluster: FakeCluster

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        with self.cluster.lock:
            self._answer(*self._get(url.path, query))

    def do_POST(self) -> None:
        body = json.loads(self._body())
        with self.cluster.lock:
            self.cluster.created.append(f"{body['kind']}/{body['metadata']['name']}")
            if body["kind"] == "Namespace":
                body["metadata"]["uid"] = f"uid-{len(self.cluster.created)}"
                self.cluster.namespaces[body["metadata"]["name"]] = body
            elif body["kind"] == "Pod":
                self.cluster.start(body)
                if self.cluster.takeover:
                    self.cluster.namespaces[body["metadata"]["namespace"]]["metadata"]["uid"] = "of another run"
                self.cluster.pods[f"{body['metadata']['namespace']}/{body['metadata']['name']}"] = body
            else:
                body["spec"]["clusterIP"] = "10.96.0.99"
                self.cluster.objects[f"{self.path}/{body['metadata']['name']}"] = body
            self._count()
            self._answer(201, body)

    def do_PATCH(self) -> None:
        body = json.loads(self._body())
        node = self.cluster.nodes.get(urlsplit(self.path).path.removeprefix("/api/v1/nodes/"))
        # What is applied is kept as it was given.
        if node and "fieldManager=" not in self.path:
            if node.conflicts:
                node.conflicts -= 1
                self._answer(409, {"message": "the object has been modified"})
                return
            for name, values in body.get("metadata", {}).items():
                if isinstance(values, dict):
                    merged = {**node.body()["metadata"].get(name, {}), **values}
                    node.metadata[name] = {key: value for key, value in merged.items() if value is not None}
            node.taints = body.get("spec", {}).get("taints", node.taints)
            self._answer(200, node.body())
            return
        with self.cluster.lock:
            self.cluster.objects[urlsplit(self.path).path] = body
            self._answer(200, body)

    def do_DELETE(self) -> None:
        parts = urlsplit(self.path).path.split("/")
        with self.cluster.lock:
            namespace, name = parts[4], parts[6] if len(parts) > 6 else None
            doomed = [
                key
                for key in self.cluster.pods
                if key == f"{namespace}/{name}" or (not name and key.startswith(f"{namespace}/"))
            ]
            for key in doomed:
                del self.cluster.pods[key]
            if len(parts) == 5:
                self.cluster.namespaces.pop(namespace, None)
            self._answer(200, {})

    def _get(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        cluster = self.cluster
        parts = path.split("/")
        if path == "/version":
            return 200, {"gitVersion": "v1.36.4"}
        if path == "/api/v1/nodes":
            return 200, {"items": [node.body() for node in cluster.nodes.values()]}
        if path.startswith("/api/v1/nodes/"):
            known = cluster.nodes.get(parts[4])
            return (200, known.body()) if known else (404, {"message": f"nodes {parts[4]} not found"})
        if path == "/api/v1/pods":
            return 200, {"items": [pod for pod in cluster.pods.values() if _selected(pod, query)]}
        if path in cluster.objects:
            return 200, cluster.objects[path]
        if path.endswith("/daemonsets"):
            return 200, {"items": cluster.daemonsets}
        if len(parts) == 5:
            found = cluster.namespaces.get(parts[4])
            return (200, found) if found else (404, {"message": f"namespaces {parts[4]} not found"})
        if path.endswith("/pods"):
            return 200, {"items": [pod for key, pod in cluster.pods.items() if key.startswith(f"{parts[4]}/")]}
        if path.endswith(("/events", "/deployments")):
            return 200, {"items": []}
        if path.endswith("/log"):
            return 200, cluster.log(cluster.pods[f"{parts[4]}/{parts[6]}"], query.get("container", ""))
        if path.endswith("/proxy/dial"):
            return cluster.dial(cluster.pods[f"{parts[4]}/{parts[6].partition(':')[0]}"], query["host"])
        return 404, {"message": f"{path} not found"}

    def _count(self) -> None:
        holding = [pod for pod in self.cluster.pods.values() if "gpu" in pod]
        self.cluster.most_gpu_pods = max(self.cluster.most_gpu_pods, len(holding))

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def _answer(self, status: int, body: Any) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


def _selected(pod: Json, query: dict[str, str]) -> bool:
    key, _equals, value = query.get("labelSelector", "").partition("=")
    if key and pod["metadata"].get("labels", {}).get(key) != value:
        return False
    node = query.get("fieldSelector", "").removeprefix("spec.nodeName=")
    return not node or pod["spec"].get("nodeName") == node
