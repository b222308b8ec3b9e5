# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for fixed settings of a running cluster, which the inventory must not change by accident."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...module_utils._cluster.dra import twice_problem
from ...module_utils._kubeadm import init_decision
from ...module_utils._problem import Problem
from ...module_utils._versions import compare_versions
from ...module_utils._words import listing
from .._nodes import control_plane as control_plane_settings
from .._nodes import kubelet as kubelet_settings
from .._nodes.kubernetes import recorded_version, server_version
from .differences import differences
from .model import Cluster, ClusterRule
from .recorded import control_plane_facts, document, each_control_plane, lost_files, value_at

VERSION = "cluster_kubernetes_version"
# The port that kubeadm uses for an address without one.
_PORT = re.compile(r":6443\Z")
_MANAGERS = {"device_plugin": "NVIDIA's device plugin", "gpu_operator": "the GPU Operator"}
# DaemonSet -> network plugin.
_NETWORK_PLUGINS = {
    "calico-node": "Calico",
    "canal": "Canal",
    "cilium": "Cilium",
    "antrea-agent": "Antrea",
    "kube-router": "kube-router",
    "weave-net": "Weave Net",
    "ovnkube-node": "OVN-Kubernetes",
    "kube-ovn-cni": "Kube-OVN",
}
# Settings that kubeadm init fixes: variable -> path in ClusterConfiguration.
_SETTLED = {
    "cluster_pod_network": ("networking", "podSubnet"),
    "cluster_service_network": ("networking", "serviceSubnet"),
    "cluster_dns_domain": ("networking", "dnsDomain"),
    "cluster_api_endpoint": ("controlPlaneEndpoint",),
}
# Variable -> the document that it extends, and how a change reaches the cluster.
_DOCUMENTS = {
    "kubeadm_cluster_configuration": (
        "ClusterConfiguration",
        "`kubectl -n kube-system edit configmap kubeadm-config`, then the phase of kubeadm that applies it on the "
        "control plane, such as `kubeadm init phase control-plane apiserver --config FILE`",
    ),
    "kubeadm_kubelet_configuration": (
        "KubeletConfiguration",
        "`kubectl -n kube-system edit configmap kubelet-config`, then on one node after the other, drained: `kubeadm "
        "upgrade node phase kubelet-config`, `systemctl restart kubelet`",
    ),
    "kubeadm_kube_proxy_configuration": (
        "KubeProxyConfiguration",
        "`kubectl -n kube-system edit configmap kube-proxy`, then `kubectl -n kube-system rollout restart daemonset "
        "kube-proxy`",
    ),
}
# Documents in which site.yml changes settings of a running cluster, and which ones.
_CHANGED_BY_SITE: Mapping[str, Callable[[str, Mapping[str, Any]], bool]] = {
    "ClusterConfiguration": control_plane_settings.is_changeable,
    "KubeletConfiguration": lambda path, _made: kubelet_settings.is_changeable(path),
}


def control_plane(cluster: Cluster) -> Iterator[Problem]:
    """Report what kubeadm_init would refuse. An unreachable API may return when kubelet and containerd are fixed."""
    for reading, found in each_control_plane(cluster):
        # An administrator's kubeconfig that is cut off is refused.
        curable = (init_decision.SILENT, *([init_decision.REFUSED] if found.get("restorable") else []))
        hopeless = found["api"] not in curable or lost_files(reading)
        if found["action"] == init_decision.REFUSE and hopeless:
            yield reading.problem(
                "control_plane_refused",
                f"The control plane can be neither used nor initialized: {found['reason']}",
                "/etc/kubernetes, /var/lib/etcd",
                "A cluster that may be in use is left as it is",
                found["advice"],
            )
        elif found["error"]:
            yield reading.problem(
                "cluster_unreadable",
                f"The API does not return the cluster's configuration: {found['error']}",
                "kube-system",
                "The inventory could accidentally change settings that must not change",
                "Check why (kubectl get --raw '/readyz?verbose'), and run this again",
            )


def version(cluster: Cluster) -> Iterator[Problem]:
    """Check for a version that the table does not have: the cluster's own decides what is installed."""
    known, wanted = cluster.settings["kubernetes_versions"], cluster.settings["kubernetes_version"]
    for _reading, found in control_plane_facts(cluster):
        versions = (str(found["version"]).removeprefix("v"), recorded_version(found))
        running = next((each for each in versions if each and each not in known), "")
        if running:
            yield Problem(
                "cluster_version_unknown",
                f"The cluster runs Kubernetes {running}, but {VERSION} is {wanted}",
                VERSION,
                "This would install another kubelet on nodes in use, but not upgrade the control plane",
                f"This release of the collection does not know {running}: use a release that does, or upgrade the "
                f"cluster with kubeadm to one of {listing(known)}",
            )


def unfinished_upgrade(cluster: Cluster) -> Iterator[Problem]:
    """Check for control planes with different versions: a kubelet or a new host could be newer than an API server."""
    recorded = next((recorded_version(found) for _reading, found in control_plane_facts(cluster)), "")
    versions = {
        reading.host: server_version(found) for reading, found in each_control_plane(cluster) if server_version(found)
    }
    if recorded and {*versions.values()} - {recorded} and not cluster.settings.get("kubernetes_upgrading"):
        shown = listing(f"{host} {version}" for host, version in versions.items())
        yield Problem(
            "upgrade_unfinished",
            f"The upgrade of the control plane was not completed: the cluster has {recorded}, and its API servers have "
            f"{shown}",
            "/etc/kubernetes/manifests",
            "A kubelet may be newer than an API server, which Kubernetes does not support",
            "Complete it: gpulab.kubernetes.upgrade_cluster",
        )


def kept_version(cluster: Cluster) -> str:
    """Return the cluster's version if this run keeps it instead of the inventory's, empty if they are the same."""
    wanted, known = str(cluster.settings["kubernetes_version"]), cluster.settings["kubernetes_versions"]
    versions = [recorded_version(found) for _reading, found in control_plane_facts(cluster)]
    kept = [each for each in versions if each in known and each != wanted]
    return kept[0] if kept and not cluster.settings.get("kubernetes_upgrading") else ""


def version_kept(cluster: Cluster) -> Iterator[Problem]:
    """Note that the run keeps the cluster's version."""
    running, wanted = kept_version(cluster), str(cluster.settings["kubernetes_version"])
    if running:
        newer = compare_versions(wanted, running) > 0
        yield Problem(
            "cluster_version_kept",
            f"The cluster runs Kubernetes {running}, but {VERSION} is {wanted}",
            VERSION,
            "The cluster keeps its version, which hosts that join get, too",
            ("To upgrade it, run gpulab.kubernetes.upgrade_cluster; otherwise, set" if newer else "Set")
            + f" {VERSION} to {running}",
        )


def settled(cluster: Cluster) -> Iterator[Problem]:
    """Check networks, names and addresses that are stored throughout a cluster when it is created."""
    for _reading, found in control_plane_facts(cluster):
        made = document(found, "ClusterConfiguration")
        for variable, path in _SETTLED.items():
            wanted, there = str(cluster.settings[variable]), value_at(made, path)
            if there and wanted and not _alike(wanted, there):
                is_name = (
                    variable == "cluster_api_endpoint" and _PORT.sub("", there) == cluster.settings["recorded_api_name"]
                )
                yield Problem(
                    "cluster_setting_settled",
                    f"The cluster was created with {'.'.join(path)} {there}, but {variable} is {wanted}",
                    variable,
                    "It is in certificates and in the configuration of every component and of running pods: changing "
                    "it would disconnect them",
                    # Only the nodes know this name.
                    f"Remove {variable}: the endpoint of this cluster is cluster_api_name"
                    if is_name
                    else f"Set {variable} to {there}; another value needs a new cluster",
                    answers=() if is_name else ((variable, there),),
                )


def image_repository(cluster: Cluster) -> Iterator[Problem]:
    wanted = str(cluster.settings["image_repository"])
    for _reading, found in control_plane_facts(cluster):
        there = value_at(document(found, "ClusterConfiguration"), ("imageRepository",))
        if there and there != wanted:
            yield Problem(
                "image_repository_differs",
                f"The cluster pulls its images from {there}, but kubeadm_image_repository is {wanted}",
                "kubeadm_image_repository",
                "Only containerd would use the new registry; the control plane would keep its images until it is "
                "upgraded",
                "Set kubeadm_image_repository as in the cluster; or change imageRepository in the cluster first "
                "(`kubectl -n kube-system edit configmap kubeadm-config`), which takes effect with the next kubeadm "
                "upgrade",
                answers=(("kubeadm_image_repository", there),),
            )


def documents(cluster: Cluster) -> Iterator[Problem]:
    for _reading, found in control_plane_facts(cluster):
        for variable, (kind, change) in _DOCUMENTS.items():
            wanted, made = cluster.settings[variable.replace("kubeadm_", "")], document(found, kind)
            # The resolv.conf is chosen per host.
            wanted = {key: value for key, value in wanted.items() if key != "resolvConf"}
            for path, want, there in differences(wanted, made) if made else ():
                if kind in _CHANGED_BY_SITE and _CHANGED_BY_SITE[kind](path, made):
                    continue
                external = control_plane_settings.is_of_another_etcd(path, made)
                yield Problem(
                    "cluster_configuration_differs",
                    f"{variable} sets {path} to {want!r:.120}, but the cluster's {kind} has {_shown(there)}",
                    variable,
                    "The cluster uses external etcd (etcd.external), which kubeadm does not set up"
                    if external
                    else "kubeadm reads this setting only when it creates the cluster, so the change would not take "
                    "effect",
                    f"Remove it from {variable}" + ("" if external else f"; or change the cluster: {change}"),
                )


def cgroup_driver(cluster: Cluster) -> Iterator[Problem]:
    for _reading, found in control_plane_facts(cluster):
        driver = document(found, "KubeletConfiguration").get("cgroupDriver") or "systemd"
        if driver != "systemd":
            yield Problem(
                "cgroup_driver_differs",
                f"The cluster's kubelets use the cgroup driver {driver}, but containerd would be set up for systemd",
                "ConfigMap kubelet-config in kube-system, cgroupDriver",
                "Pods fail if the kubelet and containerd use different drivers",
                "Change the cluster to systemd node by node, as described in kubeadm's documentation (Migrating to "
                "the systemd driver), and run this again",
            )


def pod_network(cluster: Cluster) -> Iterator[Problem]:
    plugin, backend = cluster.settings["network_plugin"], cluster.settings["flannel_backend"]
    for _reading, found in control_plane_facts(cluster):
        # Next to flannel, other plugins may only implement network policies.
        alone = "kube-flannel-ds" not in found["daemonsets"]
        others = [_NETWORK_PLUGINS[name] for name in found["daemonsets"] if name in _NETWORK_PLUGINS and alone]
        if plugin != "external" and others:
            yield Problem(
                "network_plugin_differs",
                f"The cluster's pod network is {listing(others)}, but cluster_network_plugin is {plugin}",
                "cluster_network_plugin",
                "Two plugins on one node overwrite each other's configuration, and pods lose their network",
                "Set cluster_network_plugin to external",
                answers=(("cluster_network_plugin", "external"),),
            )
        flannel = document(found, "flannel")
        there = value_at(flannel, ("Backend", "Type"))
        if plugin == "flannel" and there and there != backend:
            yield Problem(
                "flannel_backend_differs",
                f"flannel's backend in the cluster is {there}, but flannel_backend is {backend}",
                "flannel_backend",
                "flannel can't change its backend while it runs: pods on different nodes would not reach each other",
                f"Set flannel_backend to {there}",
                answers=(("flannel_backend", there),),
            )
        network = value_at(flannel, ("Network",))
        if plugin == "flannel" and network and not _alike(str(cluster.settings["cluster_pod_network"]), network):
            yield Problem(
                "flannel_network_differs",
                f"flannel's network in the cluster is {network}, but cluster_pod_network is "
                f"{cluster.settings['cluster_pod_network']}",
                "cluster_pod_network",
                "Nodes keep their part of the network, so their pods would be disconnected",
                f"Set cluster_pod_network to {network}",
                answers=(("cluster_pod_network", network),),
            )


def gpu_manager(cluster: Cluster) -> Iterator[Problem]:
    wanted = cluster.settings["gpu_manager"]
    for _reading, found in control_plane_facts(cluster):
        there = found["gpu_managers"]
        if there and wanted not in there and not cluster.settings["gpu_manager_changing"]:
            yield Problem(
                "gpu_manager_differs",
                f"The cluster's GPUs are offered by {_MANAGERS[there[0]]}, but cluster_gpu_manager is {wanted}",
                "cluster_gpu_manager",
                "Changing it stops every pod that uses a GPU",
                f"Set cluster_gpu_manager to {there[0]}; or change it with the playbook "
                "gpulab.kubernetes.gpu_operator, which handles these pods",
                answers=(("cluster_gpu_manager", there[0]),),
            )


def gpus_twice(cluster: Cluster) -> Iterator[Problem]:
    for _reading, found in control_plane_facts(cluster):
        twice = found.get("gpus_twice")
        if twice:
            yield twice_problem(twice["nodes"], twice["classes"])


def keep_version(running: str, cluster: Cluster) -> tuple[tuple[str, str], ...]:
    """Return the answer that keeps a version of Kubernetes, none if this release does not know it."""
    return ((VERSION, running),) if running in cluster.settings["kubernetes_versions"] else ()


def _alike(wanted: str, there: str) -> bool:
    """Return whether networks (one of two IP families is enough) or addresses (the default port aside) are equal."""
    try:
        networks = [ipaddress.ip_network(part.strip(), strict=False) for part in there.split(",")]
        return ipaddress.ip_network(wanted, strict=False) in networks
    except ValueError:
        return _PORT.sub("", wanted.lower()) == _PORT.sub("", there.lower())


def _shown(there: Any) -> str:
    return "nothing there" if there is None else f"{there!r:.120}"


CLUSTER_RULES: tuple[ClusterRule, ...] = (
    control_plane,
    version,
    unfinished_upgrade,
    settled,
    image_repository,
    documents,
    cgroup_driver,
    pod_network,
    gpu_manager,
    gpus_twice,
)
NOTES: tuple[ClusterRule, ...] = (version_kept,)
