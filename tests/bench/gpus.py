"""Measure how long a node has no GPUs during a driver change, and how many pods a second site.yml disturbs."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.cluster import Cluster
from support.lab import Lab
from support.play import play

VERSION = "595.91.07"
LAYOUT = "all-1g.5gb"


class Watch(threading.Thread):
    """Ask the API about twice a second which resources each node offers, for as long as the block runs."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._over = threading.Event()
        self._samples: list[tuple[float, dict[str, int]]] = []

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.is_set():
            nodes = self._cluster.get("nodes")["items"]
            self._samples.append((time.monotonic(), {node["metadata"]["name"]: usable(node) for node in nodes}))
            self._over.wait(0.3)

    def without(self, node: str) -> float:
        """Return the seconds during which a node offered no GPU."""
        pairs = zip(self._samples, self._samples[1:], strict=False)
        return round(sum(after[0] - before[0] for before, after in pairs if not before[1].get(node)), 1)


def usable(node: dict[str, Any]) -> int:
    if node["spec"].get("unschedulable"):
        return 0
    amounts = node["status"]["allocatable"]
    return sum(
        int(amount) for name, amount in amounts.items() if name.startswith(("nvidia.com/gpu", "nvidia.com/mig-"))
    )


def disturbed(lab: Lab, cluster: Cluster, nodes: list[str]) -> int:
    """Return how many pods (one GPU pod per node) were replaced by another run of site.yml."""
    before = {node: identity(cluster.start_gpu_pod(f"bench-{node}", 1, node)) for node in nodes}
    play(lab.path).expect_unchanged()
    after = {node: identity(cluster.get("pod", f"bench-{node}")) for node in nodes}
    for node in nodes:
        cluster.delete_pod(f"bench-{node}")
    return sum(before[node] != after[node] for node in nodes)


def identity(pod: dict[str, Any]) -> tuple[Any, ...]:
    statuses = pod["status"]["containerStatuses"]
    return pod["metadata"]["uid"], [(status["containerID"], status["restartCount"]) for status in statuses]


def measure(lab: Lab) -> dict[str, object]:
    """Return the seconds without GPUs by change and node, and the disturbed pods. Changes the lab."""
    inventory = lab.inventory()
    cluster = Cluster.of(inventory)
    nodes = sorted(inventory.expected_gpus())
    found: dict[str, object] = {"gpu_pods_disturbed_by_second_site": disturbed(lab, cluster, nodes)}
    (capable,) = (
        node["metadata"]["name"] for node in cluster.get("nodes", "--selector", "nvidia.com/mig.capable=true")["items"]
    )
    further = lab.directory / "sharing.yml"
    sharing = {"cluster_gpu_sharing": {"mode": "mig", "layout": LAYOUT}}
    for what, declared in (("mig", sharing), ("exclusive", {"cluster_gpu_sharing": {"mode": "exclusive"}})):
        further.write_text(json.dumps({"all": {"hosts": {capable: declared}}}))
        with Watch(cluster) as watch:
            play(lab.path, "-i", str(further), playbook="playbooks/share_gpus.yml").expect_success()
        found[f"{what}_without_gpus_s"] = {capable: watch.without(capable)}
    with Watch(cluster) as watch:
        wanted = f"nvidia_driver_version={VERSION}"
        play(lab.path, "-e", wanted, playbook="playbooks/upgrade_driver.yml").expect_success()
    found["driver_without_gpus_s"] = {node: watch.without(node) for node in nodes}
    return found
