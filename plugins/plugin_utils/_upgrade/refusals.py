# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why an upgrade of Kubernetes is refused before anything changes, and what a person should know. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...module_utils._etcd.members import HEALTHY
from ...module_utils._versions import compare_versions
from ...module_utils._words import counted, listing
from .._nodes.kubernetes import KUBELET_SKEW, minor, minors_behind, release
from .model import ClusterState, Host, Settings

# Minor from which the kubelet does not start with these flags, which are cAdvisor's (k/k #139870).
REMOVED_FLAGS = {
    37: (
        *("application-metrics-count-limit", "boot-id-file", "container-hints", "containerd", "containerd-namespace"),
        *("enable-load-reader", "event-storage-age-limit", "event-storage-event-limit", "global-housekeeping-interval"),
        *("log-cadvisor-usage", "machine-id-file", "storage-driver-buffer-duration", "storage-driver-db"),
        *("storage-driver-host", "storage-driver-password", "storage-driver-secure", "storage-driver-table"),
        "storage-driver-user",
    )
}
# Minor that no longer has scheduling.k8s.io/v1alpha2 (k/k #138572).
_WITHOUT_OLD_OBJECTS = 37
# kubeadm copies etcd's directory while it grows, and writes manifests.
_SPARE = 256 * 2**20
UPGRADE = "upgrade"
# API group -> what distributes jobs, is named, and is left alone.
QUEUES = {
    "kueue.x-k8s.io": "Kueue",
    "kai.scheduler": "KAI Scheduler",
    "scheduling.run.ai": "KAI Scheduler",
    "scheduling.volcano.sh": "Volcano",
    "hami.io": "HAMi",
}


def refusals(hosts: Sequence[Host], cluster: ClusterState, settings: Settings, steps: Sequence[Host]) -> list[str]:
    """Return the reasons, each with what to do. ``steps`` are the hosts that would change."""
    if cluster.error:
        return [f"The API can't be read: {cluster.error}. Check it with kubectl get --raw '/readyz?verbose'."]
    reasons = list(_versions(cluster, settings))
    return reasons or [
        *_skew(cluster, settings),
        *_health(hosts, cluster),
        *_refused_by_version(hosts, cluster, settings),
        *_space(steps),
        *_runtime(steps, settings),
        *_unfinished(hosts),
    ]


def notes(hosts: Sequence[Host], cluster: ClusterState, settings: Settings) -> list[str]:
    """Return what does not prevent the upgrade."""
    found = [
        f"{name} distributes jobs in this cluster: what it admits meanwhile is not delayed by this upgrade"
        for name in dict.fromkeys(QUEUES[group] for group in cluster.groups if group in QUEUES)
    ]
    if cluster.proxy_mode == "ipvs":
        found.append(
            "kube-proxy uses ipvs, which is deprecated: change it to iptables or nftables before it is removed"
        )
    if cluster.external_etcd:
        found.append("etcd is external: it is neither upgraded nor backed up")
    there = {host.node for host in hosts}
    left = [
        f"{each['name']} ({each['kubelet'].removeprefix('v')})"
        for each in cluster.nodes
        if each["name"] not in there and compare_versions(release(each["kubelet"]) or "0", settings.wanted) < 0
    ]
    return [*found, *([f"not in this run, and left as they are: {listing(left)}"] if left else [])]


def _versions(cluster: ClusterState, settings: Settings) -> Iterator[str]:
    wanted, running, table = settings.wanted, cluster.version, settings.table
    if wanted not in table:
        yield (
            f"Kubernetes {wanted} is not in the table of versions, which has {listing(table)}. Set "
            "cluster_kubernetes_version to one of these, or use a newer release of this collection."
        )
    elif running not in table:
        yield (
            f"The cluster runs Kubernetes {running or 'of an unknown version'}, which is not in the table of versions "
            f"({listing(table)}). Use a release of this collection that has it."
        )
    elif compare_versions(wanted, running) < 0:
        yield (
            f"The cluster runs {running}, and Kubernetes can't be downgraded to {wanted}: etcd keeps what the newer "
            f"version wrote. Set cluster_kubernetes_version to {running}; or restore a backup from before the upgrade "
            "(gpulab.kubernetes.restore), which loses what has changed since."
        )
    elif minor(wanted) > minor(running) + 1:
        following = [each for each in table if minor(each) == minor(running) + 1]
        first = f"first to {following[-1]}: -e cluster_kubernetes_version={following[-1]}" if following else ""
        yield (
            f"From {running} to {wanted} skips a minor, which Kubernetes does not support. Upgrade "
            f"{first or 'minor by minor, with a release of this collection that has the one between them'}."
        )


def _skew(cluster: ClusterState, settings: Settings) -> Iterator[str]:
    for node in cluster.nodes:
        name, kubelet = node["name"], release(node["kubelet"])
        if not kubelet:
            yield f"The version of the kubelet of {name} is unknown ({node['kubelet'][:40]!r}). Check the node."
        elif minors_behind(kubelet, settings.wanted) > KUBELET_SKEW:
            yield (
                f"The kubelet of {name} is {kubelet}, and may be at most {KUBELET_SKEW} minors older than "
                f"{settings.wanted}. Upgrade this node first: gpulab.kubernetes.site, when its jobs have ended."
            )
        elif compare_versions(kubelet, settings.wanted) > 0:
            yield f"The kubelet of {name} is {kubelet}, newer than {settings.wanted}: no API server may be older."


def _health(hosts: Sequence[Host], cluster: ClusterState) -> Iterator[str]:
    for host in hosts:
        if host.control_plane and host.member and not cluster.node(host.node).get("ready"):
            yield f"The control plane {host.name} is not ready. Repair it first: kubectl describe node {host.node}"
    if cluster.etcd_error:
        yield f"etcd can't be asked: {cluster.etcd_error}"
    for member in cluster.members:
        if member["health"] != HEALTHY:
            label = member["name"] or member["id"]
            yield f"The member {label} of etcd is {member['health']}. Repair or remove it first."


def _refused_by_version(hosts: Sequence[Host], cluster: ClusterState, settings: Settings) -> Iterator[str]:
    wanted = minor(settings.wanted)
    if wanted >= _WITHOUT_OLD_OBJECTS and cluster.old_objects:
        shown = listing(cluster.old_objects[:5])
        yield (
            f"{counted(len(cluster.old_objects), 'object')} of scheduling.k8s.io/v1alpha2, which {settings.wanted} "
            f"does not have ({shown}). Delete them, and turn off the feature gates that need them."
        )
    for host in hosts:
        removed = {flag for since, flags in REMOVED_FLAGS.items() if wanted >= since for flag in flags}
        found = sorted(flag for flag in host.flags if flag.replace("_", "-") in removed)
        if found:
            yield (
                f"{host.name}: the kubelet of {settings.wanted} does not start with "
                f"{listing(f'--{each}' for each in found)}. "
                "Remove that from kubeadm_kubelet_extra_args and /var/lib/kubelet/kubeadm-flags.env."
            )


def _space(steps: Sequence[Host]) -> Iterator[str]:
    for host in steps:
        needed = host.etcd_data + _SPARE
        if host.control_plane and host.free < needed:
            yield (
                f"{host.name}: {host.free // 2**20} MiB are free for /etc/kubernetes/tmp, and kubeadm's copy of etcd "
                f"needs {needed // 2**20} MiB. Make space on this file system."
            )


def _runtime(steps: Sequence[Host], settings: Settings) -> Iterator[str]:
    minimum = str(settings.table[settings.wanted].get("containerd_minimum", ""))
    for host in steps:
        if minimum and host.containerd and compare_versions(host.containerd, minimum) < 0:
            yield (
                f"{host.name}: containerd {host.containerd} is older than {minimum}, which {settings.wanted} needs. "
                "Run gpulab.kubernetes.site first."
            )


def _unfinished(hosts: Sequence[Host]) -> Iterator[str]:
    for host in hosts:
        if host.interrupted and host.interrupted != UPGRADE:
            yield (
                f"{host.name}: a change of the control plane was interrupted. Complete it first: "
                "gpulab.kubernetes.site -e cluster_control_plane_gap=allow"
            )
