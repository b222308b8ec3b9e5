"""What a point is judged by: how its run ended, and what the cluster has afterwards."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection
from datetime import datetime

from support.api_prober import NAMESPACE, ApiProber
from support.cluster import Cluster
from support.hosts import Inventory
from support.play import Run

from fire.points import POWER, Point

INITIALIZE = "kubeadm : Initialize the control plane"
_FILES = "/etc/kubernetes /var/lib/kubelet /var/lib/etcd/member /var/lib/gpulab/cluster.json /etc/gpulab"
# The certificate authority, and the head of etcd's log, which has the IDs of its cluster and member.
_IDENTITY = """
sha256sum /etc/kubernetes/pki/ca.crt
cd /var/lib/etcd/member/wal && head -c 64 "$(ls *.wal | head -n 1)" | sha256sum
"""


def not_interrupted(point: Point, run: Run, *, fired: bool) -> tuple[str, str] | None:
    """Return the outcome of a run that its fault did not interrupt, None if it did.

    A kill can come when the run has already ended. A run that loses a node may go on and even succeed.
    """
    if fired and (point.kind == POWER or run.status == -signal.SIGKILL):
        return None
    if run.status:
        return "failed", f"the run failed before its fault, with {run.status}:\n{run.failures() or run.tail(20)}"
    return "missed", "the run ended before its moment came"


def await_answers(hosts: Inventory) -> None:
    """Wait until all hosts can be reached. Raises AssertionError if one can't within two minutes."""
    end = time.monotonic() + 120
    for host in hosts.hosts.values():
        while (done := host.attempt("true")).returncode:
            assert time.monotonic() < end, f"{host.name} did not come back: {done.stderr}"
            time.sleep(1)


def has_cluster(hosts: Inventory) -> bool:
    return hosts.control_plane.attempt("test -s /etc/kubernetes/admin.conf").returncode == 0


def initialized(run: Run) -> bool:
    """Return whether a run has finished the task after which no other run may make the cluster again."""
    return any(result["task"] == INITIALIZE for result in run.results("ok", "changed"))


def identity(hosts: Inventory) -> str:
    return " ".join(hosts.control_plane.attempt(_IDENTITY).stdout.split())


def unfinished(third: Run, repeats: bool = False) -> list[str]:
    """Return what the third run still found to do; one that `repeats` always changes something."""
    if third.status:
        return [f"the run after that ended with {third.status}:\n{third.failures()}"]
    return [] if repeats else [f"the run after that changed {host}: {task}" for host, task in sorted(third.changed())]


def cluster_problems(hosts: Inventory, outside: Collection[str] = ()) -> list[str]:
    """Return what the cluster lacks. The hosts `outside` must not be nodes."""
    cluster = Cluster.of(hosts)
    ready, gpus = cluster.ready_nodes(), cluster.allocatable_gpus()
    problems = [f"node {name} is not ready" for name in sorted(hosts.hosts.keys() - ready - {*outside})]
    problems += [f"node {name} is there" for name in sorted(ready & {*outside})]
    expected = {name: count for name, count in hosts.expected_gpus().items() if name not in outside}
    if gpus != expected:
        problems.append(f"the nodes offer the GPUs {gpus}, expected are {expected}")
    return problems


def remains(hosts: Inventory) -> list[str]:
    """Return the files of a cluster that hosts have after it was removed, but for mount points, which were there."""
    left = '[ ! -e "$path" ] || { mountpoint -q "$path" && [ -z "$(ls -A "$path")" ]; } || echo "$path"'
    command = f"for path in {_FILES}; do {left}; done"
    found = {host.name: host.run(command).split() for host in hosts.hosts.values()}
    return [f"{path} is left on {name}" for name, paths in found.items() for path in paths]


def not_renewed(hosts: Inventory, since: float, outside: Collection[str] = ()) -> list[str]:
    leases = Cluster.of(hosts).get("leases", "-n", "kube-node-lease")["items"]
    renewed = {
        item["metadata"]["name"]
        for item in leases
        if datetime.fromisoformat(item["spec"]["renewTime"]).timestamp() > since
    }
    return [f"the kubelet of {name} has not reported yet" for name in sorted(hosts.hosts.keys() - renewed - {*outside})]


def lost(hosts: Inventory, prober: ApiProber) -> list[str]:
    there = {item["metadata"]["name"] for item in Cluster.of(hosts).get("configmaps", "-n", NAMESPACE)["items"]}
    lost = sorted(prober.acknowledged() - there)
    return [f"{len(lost)} acknowledged objects are lost, the first is {lost[0]}"] if lost else []
