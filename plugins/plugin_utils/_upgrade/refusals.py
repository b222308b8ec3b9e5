# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why an upgrade of Kubernetes is refused before anything changes, and what a person should know. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...module_utils._etcd.members import HEALTHY, member_of
from ...module_utils._etcd.quorum import find, may_stop
from ...module_utils._json import as_mapping, as_mappings, as_text
from ...module_utils._kubeadm.undo import UPGRADE
from ...module_utils._versions import compare_versions
from ...module_utils._words import abridged, counted, listing
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
# Minor from which the components do not start with these feature gates (pkg/features of each release).
REMOVED_GATES = {
    36: (
        *("CSIMigrationPortworx", "HonorPVReclaimPolicy", "InPlacePodVerticalScalingAllocatedStatus"),
        *("InTreePluginPortworxUnregister", "MemoryManager", "ServiceTrafficDistribution"),
        *("StructuredAuthorizationConfiguration", "TopologyAwareHints", "WatchFromStorageWithoutResourceVersion"),
    ),
    37: (
        *("APIServerTracing", "AnonymousAuthConfigurableEndpoints", "AnyVolumeDataSource"),
        *("AuthorizeNodeWithSelectors", "AuthorizeWithSelectors", "BtreeWatchCache", "ConsistentListFromCache"),
        *("GangScheduling", "JobBackoffLimitPerIndex", "JobPodReplacementPolicy", "JobSuccessPolicy"),
        *("LogarithmicScaleDown", "OrderedNamespaceDeletion", "PodLifecycleSleepAction"),
        *("PodLifecycleSleepActionAllowZero", "PreventStaticPodAPIReferences", "RelaxedDNSSearchValidation"),
        *("ResilientWatchCacheInitialization", "RetryGenerateName", "SchedulerQueueingHints", "SidecarContainers"),
        *("StreamingCollectionEncodingToJSON", "StreamingCollectionEncodingToProtobuf"),
        *("StructuredAuthenticationConfiguration", "WorkloadAwarePreemption"),
    ),
}
# Minor that no longer has scheduling.k8s.io/v1alpha2 (k/k #138572).
_WITHOUT_OLD_OBJECTS, _OLD_API = 37, "scheduling.k8s.io/v1alpha2"
# How a change of the control plane is applied.
_APPLY = "gpulab.kubernetes.site -e cluster_control_plane_gap=allow"
_COMPONENTS = {
    "apiServer": "kube-apiserver",
    "controllerManager": "kube-controller-manager",
    "scheduler": "kube-scheduler",
}
# kubeadm copies etcd's directory while it grows, and writes manifests.
_SPARE_MIB = 256
# API group -> the queue or scheduler of jobs that is named in the plan, and otherwise left alone.
QUEUES = {
    "kueue.x-k8s.io": "Kueue",
    "kai.scheduler": "KAI Scheduler",
    "scheduling.run.ai": "KAI Scheduler",
    "scheduling.volcano.sh": "Volcano",
    "hami.io": "HAMi",
}


def refusals(
    hosts: Sequence[Host],
    cluster: ClusterState,
    settings: Settings,
    steps: Sequence[Host],
    control_planes: Sequence[str],
) -> list[str]:
    """Return the reasons, each with what to do. ``steps`` are the hosts that would change."""
    there = {host.node for host in hosts}
    unknown = [each["name"] for each in cluster.nodes if each["control_plane"] and each["name"] not in there]
    left_out = [name for name in control_planes if name not in [host.name for host in hosts]] or unknown
    if left_out:
        return [
            f"This run leaves out {listing(left_out)}: an upgrade needs all control planes, because no kubelet may be "
            "newer than an API server. Run it without --limit, and with all of them in the inventory."
        ]
    if cluster.error:
        interrupted = listing(host.name for host in hosts if host.interrupted == UPGRADE)
        do = "Check it with kubectl get --raw '/readyz?verbose'"
        if interrupted:
            do = f"The upgrade of {interrupted} was interrupted: run this without --check, which continues it"
        return [f"The API can't be read: {cluster.error}. {do}."]
    reasons = list(_versions(cluster, settings))
    return reasons or [
        *_skew(cluster, settings),
        *([*_health(hosts, cluster)] or _quorum(steps, cluster, settings)),
        *_refused_by_version(hosts, cluster, settings),
        *_lost(steps),
        *_space(steps),
        *_runtime(steps, settings),
        *_unfinished(hosts, settings),
        *_backup(steps, cluster, settings),
    ]


def in_use(jobs: Mapping[str, Sequence[str]]) -> str:
    """Return why nothing changes while GPUs are in use. ``jobs`` are the pods and processes by host."""
    users = "; ".join(f"{name}: {', '.join(found)}" for name, found in jobs.items())
    return (
        f"GPUs are in use ({users}), and cluster_disruption_policy is refuse. Choose what happens to these jobs: "
        "-e cluster_disruption_policy=defer (upgrade everything else now, and these nodes when a later run finds them "
        "free), =wait (until they end), =signal (evict them, with time to save), =drain (evict them)."
    )


def notes(hosts: Sequence[Host], cluster: ClusterState, settings: Settings) -> list[str]:
    """Return what does not prevent the upgrade."""
    found = [
        f"{name} admits jobs to this cluster, also during the upgrade: pause its queues to keep new jobs from starting"
        for name in dict.fromkeys(QUEUES[group] for group in cluster.groups if group in QUEUES)
    ]
    if cluster.proxy.get("mode") == "ipvs":
        found.append(
            "kube-proxy uses ipvs, which is deprecated: change it to iptables or nftables before it is removed"
        )
    if cluster.external_etcd:
        found.append("etcd is external: it is neither upgraded nor backed up, so back it up before the upgrade")
    elif not cluster.members:
        found.append("etcd was not asked for its members, because its tools are not installed yet")
    if not cluster.accepts_check:
        found.append(
            "no node can run the Job with which kubeadm checks the cluster (all are cordoned or have other taints than "
            "the control plane's), so this check is ignored"
        )
    there = {host.node for host in hosts}
    left = [
        f"{each['name']} ({each['kubelet'].removeprefix('v')})"
        for each in cluster.nodes
        if each["name"] not in there and compare_versions(release(each["kubelet"]) or "0", settings.wanted) < 0
    ]
    return [*found, *([f"not in this run: {listing(left)}"] if left else [])]


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
            f"version wrote. Set cluster_kubernetes_version to {running}."
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
            yield f"The version of the kubelet of {name} is unknown. Check the node: kubectl describe node {name}"
        elif (minors_behind(kubelet, settings.wanted) or 0) > KUBELET_SKEW:
            yield (
                f"The kubelet of {name} is {kubelet}, and may be at most {KUBELET_SKEW} minors older than "
                f"{settings.wanted}. Upgrade this node first: gpulab.kubernetes.site, when its jobs have ended."
            )
        elif compare_versions(kubelet, settings.wanted) > 0:
            yield f"The kubelet of {name} is {kubelet}, newer than {settings.wanted}: no API server may be older."


def _health(hosts: Sequence[Host], cluster: ClusterState) -> Iterator[str]:
    for host in hosts:
        node = cluster.node(host.node)
        # One in whose upgrade a run was interrupted may not be ready because of it.
        interrupted = host.interrupted == UPGRADE or node.get("upgrading")
        if host.control_plane and host.member and not node.get("ready") and not interrupted:
            yield f"The control plane {host.name} is not ready. Repair it first: kubectl describe node {host.node}"
    if cluster.etcd_error:
        yield f"etcd can't be read: {cluster.etcd_error}. Check it with etcdctl endpoint health --cluster."
    for member in cluster.members:
        if member["health"] != HEALTHY:
            label = member["name"] or member["id"]
            yield f"The member {label} of etcd is {member['health']}. Repair or remove it first."


def _quorum(steps: Sequence[Host], cluster: ClusterState, settings: Settings) -> list[str]:
    """Return why etcd may not restart on a host. The only member of a cluster may."""
    members = [member_of(each) for each in cluster.members]
    restarted = [host for host in steps if host.kubernetes != settings.wanted and find(members, host.node)]
    verdicts = ((host.name, may_stop(members, [host.node], last_voter=True)) for host in restarted)
    return [f"{name}: {verdict.reason}" for name, verdict in verdicts if not verdict.allowed][:1]


def _refused_by_version(hosts: Sequence[Host], cluster: ClusterState, settings: Settings) -> Iterator[str]:
    wanted = minor(settings.wanted)
    if wanted >= _WITHOUT_OLD_OBJECTS and cluster.old_objects:
        shown = listing(cluster.old_objects[:5])
        yield (
            f"{counted(len(cluster.old_objects), 'object')} of {_OLD_API}, which {settings.wanted} does not have "
            f"({shown}). Delete them, and turn off the feature gates that need them."
        )
    if wanted >= _WITHOUT_OLD_OBJECTS and _OLD_API in _arguments(cluster, "apiServer").get("runtime-config", ""):
        yield (
            f"The API server has {_OLD_API} in --runtime-config, and that of {settings.wanted} does not start with it. "
            f"Remove it from kubeadm_cluster_configuration, and run {_APPLY}."
        )
    gates = {gate for since, names in REMOVED_GATES.items() if wanted >= since for gate in names}
    for where, names, remedy in _gates(hosts, cluster):
        found = sorted(gates.intersection(names))
        if found:
            yield f"{where} {settings.wanted} does not know these feature gates: {listing(found)}. {remedy}."
    removed = {flag for since, flags in REMOVED_FLAGS.items() if wanted >= since for flag in flags}
    for host in hosts:
        found = sorted(flag for flag in host.flags if flag.replace("_", "-") in removed)
        if found:
            yield (
                f"{host.name}: the kubelet of {settings.wanted} does not start with "
                f"{listing(f'--{each}' for each in found)}. "
                "Remove that from kubeadm_kubelet_extra_args and /var/lib/kubelet/kubeadm-flags.env."
            )


def _gates(hosts: Sequence[Host], cluster: ClusterState) -> Iterator[tuple[str, Sequence[str], str]]:
    """Yield where feature gates are set, their names, and how to remove one."""
    for component, name in _COMPONENTS.items():
        text = _arguments(cluster, component).get("feature-gates", "")
        names = [each.partition("=")[0].strip() for each in text.split(",")]
        yield name, names, f"Remove them from kubeadm_cluster_configuration, and run {_APPLY}"
    kubelet = as_mapping(cluster.kubelet_configuration.get("featureGates"))
    yield "kubelet", [*kubelet], "Remove them from kubeadm_kubelet_configuration, and run gpulab.kubernetes.site"
    for host in hosts:
        yield f"{host.name}: kubelet", host.gates, "Remove them from kubeadm_kubelet_extra_args"
    proxy = as_mapping(cluster.proxy.get("featureGates"))
    yield "kube-proxy", [*proxy], "Remove them: kubectl -n kube-system edit configmap kube-proxy"


def _arguments(cluster: ClusterState, component: str) -> dict[str, str]:
    """Return the extra arguments of a component in the cluster's configuration."""
    found = as_mappings(as_mapping(cluster.configuration.get(component)).get("extraArgs"))
    return {as_text(each.get("name")): as_text(each.get("value")) for each in found}


def _lost(steps: Sequence[Host]) -> Iterator[str]:
    for host in steps:
        if host.lost:
            yield (
                f"{host.name}: the upgrade would remove settings that only its manifests have: "
                f"{listing(abridged(host.lost))}. Add them to kubeadm_cluster_configuration and run "
                "gpulab.kubernetes.site to keep them, or remove them by hand."
            )


def _backup(steps: Sequence[Host], cluster: ClusterState, settings: Settings) -> Iterator[str]:
    if any(host.control_plane for host in steps) and not settings.backup and not cluster.external_etcd:
        yield "backup_enabled is false, and an upgrade begins with a backup. Set it to true."


def _space(steps: Sequence[Host]) -> Iterator[str]:
    for host in steps:
        needed = host.etcd_data + _SPARE_MIB
        if host.control_plane and host.free < needed:
            yield (
                f"{host.name}: {host.free} MiB are free for /etc/kubernetes/tmp, and kubeadm's copy of etcd needs "
                f"{needed} MiB. Make space on this file system."
            )


def _runtime(steps: Sequence[Host], settings: Settings) -> Iterator[str]:
    minimum = str(settings.table[settings.wanted].get("containerd_minimum", ""))
    for host in steps:
        if minimum and host.containerd and compare_versions(host.containerd, minimum) < 0:
            yield (
                f"{host.name}: containerd {host.containerd} is older than {minimum}, which {settings.wanted} needs. "
                "Run gpulab.kubernetes.site first."
            )


def _unfinished(hosts: Sequence[Host], settings: Settings) -> Iterator[str]:
    for host in hosts:
        begun = release(host.settings.get("version"))
        if host.interrupted == UPGRADE and begun not in ("", settings.wanted):
            yield (
                f"{host.name}: its upgrade to {begun} was interrupted. Complete it first: "
                f"gpulab.kubernetes.upgrade_cluster -e cluster_kubernetes_version={begun}"
            )
        if host.interrupted and host.interrupted != UPGRADE:
            yield f"{host.name}: a change of the control plane was interrupted. Complete it first: {_APPLY}"
