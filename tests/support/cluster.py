"""Queries of a cluster with kubectl on its control plane, and pods for the tests."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from support.hosts import Host, Inventory

IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"


@dataclass(frozen=True)
class Cluster:
    control_plane: Host

    @classmethod
    def of(cls, inventory: Inventory) -> Cluster:
        return cls(inventory.control_plane)

    def kubectl(self, *arguments: str, timeout: float = 180) -> str:
        words = shlex.join(["kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", *arguments])
        return self.control_plane.run(words, timeout)

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "--output", "json"))

    def apply(self, *manifests: dict[str, Any]) -> None:
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        command = "kubectl --kubeconfig /etc/kubernetes/admin.conf apply --filename -"
        self.control_plane.run(f"printf %s {shlex.quote(document)} | {command}")

    def ready_nodes(self) -> set[str]:
        return {n["metadata"]["name"] for n in self.get("nodes")["items"] if condition(n, "Ready") == "True"}

    def boot_id(self, name: str) -> str:
        """Return the boot ID that a node's kubelet last reported."""
        found: str = self.get("node", name)["status"]["nodeInfo"]["bootID"]
        return found

    def allocatable_gpus(self) -> dict[str, int]:
        """Return the number of nvidia.com/gpu that each node offers, for nodes that offer any."""
        offered = {n["metadata"]["name"]: n["status"]["allocatable"] for n in self.get("nodes")["items"]}
        return {name: int(a["nvidia.com/gpu"]) for name, a in offered.items() if int(a.get("nvidia.com/gpu", 0))}

    def start_gpu_pod(self, name: str, gpus: int, node: str | None = None) -> dict[str, Any]:
        """Start a pod with this many GPUs, wait until it runs, and return it."""
        self.apply(gpu_pod(name, gpus, node))
        self.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=120s")
        pod: dict[str, Any] = self.get("pod", name)
        return pod

    def delete_pod(self, name: str) -> None:
        self.kubectl("delete", "pod", name, "--grace-period=1", "--timeout=60s", "--ignore-not-found")

    def pod_of(self, deployment: str) -> dict[str, Any]:
        """Wait until a deployment of one pod runs, and return that pod; its label app has the deployment's name."""
        self.kubectl("rollout", "status", f"deployment/{deployment}", "--timeout=120s")
        pods = self.get("pods", "--selector", f"app={deployment}")["items"]
        (pod,) = [each for each in pods if not each["metadata"].get("deletionTimestamp")]
        found: dict[str, Any] = pod
        return found


def condition(item: dict[str, Any], kind: str) -> str | None:
    return next((c["status"] for c in item["status"].get("conditions", []) if c["type"] == kind), None)


def gpu_pod(name: str, gpus: int, node: str | None) -> dict[str, Any]:
    """Return a pod that runs until it is deleted; with 0 GPUs it requests none, but tries to see all."""
    container: dict[str, Any] = {"name": "main", "image": IMAGE, "command": ["/bin/sh", "-c", "exec sleep infinity"]}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    else:
        container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": 1}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def gpu_deployment(name: str, budget: bool = False) -> list[dict[str, Any]]:
    """Return a deployment whose pod is replaced after an eviction, with or without a budget that forbids evictions."""
    labels = {"app": name}
    pod = gpu_pod(name, 1, None)
    body: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }
    protected: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    }
    return [body, protected] if budget else [body]
