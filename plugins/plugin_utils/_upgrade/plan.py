# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan an upgrade of Kubernetes: what changes on each host, in which order, and what it disturbs. Pure.

Control planes come first, one at a time: the first one applies the new version to the cluster, the others follow.
Then the kubelets of workers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils._json import as_mapping, as_text
from ...module_utils._kubeadm import undo
from ...module_utils._kubeadm.manifests import COMPONENTS, ETCD
from ...module_utils._kubeadm.upgrade import APPLY, NODE
from ...module_utils._versions import compare_versions
from .._nodes.kubernetes import NONE as CURRENT
from .._nodes.kubernetes import PROGRAMS, kubelet_state, release, release_of_package
from .model import ClusterState, Facts, Host, Settings
from .refusals import in_use, notes, refusals

FIRST, UPGRADE, NONE, LEAVE = "upgrade_first", "upgrade", "none", "leave"
# What a step takes: restarts of static pods, and of a kubelet with its checks. Waiting for jobs comes on top.
_CONTROL_PLANE_SECONDS, _KUBELET_SECONDS, _GAP_SECONDS = 180, 60, 45
_IGNORE, _REFUSE, _DEFER = "ignore", "refuse", "defer"
_REGISTRY = "registry.k8s.io"
_CHECK = "CreateJob"


def plan(
    hosts: Sequence[Host], cluster: ClusterState, settings: Settings, control_planes: Sequence[str]
) -> dict[str, Any]:
    """Return the plan. ``refusals`` are reasons for which nothing may change; ``digest`` identifies what is approved:
    the versions of all hosts afterwards, and the policy, not the jobs that happen to run, or what is done already."""
    release_to = settings.table.get(settings.wanted, {})
    actions = _actions(hosts, cluster, settings)
    entries = {host.name: _entry(host, actions[host.name], cluster, settings) for host in hosts}
    steps = [host for host in hosts if entries[host.name]["step"] in (FIRST, UPGRADE)]
    leading = [host.name for host in steps if host.control_plane]
    found = {
        "from": cluster.version,
        "to": settings.wanted,
        "policy": settings.policy,
        "serial": settings.serial,
        "order": {"control_planes": leading, "workers": [host.name for host in steps if not host.control_plane]},
        "hosts": entries,
        "cluster": {
            "CoreDNS": {"from": cluster.coredns, "to": str(release_to.get("coredns", ""))},
            "kube-proxy": {"from": cluster.kube_proxy, "to": f"v{settings.wanted}"},
        },
        "gap_seconds": _GAP_SECONDS if any(actions.values()) and len(control_planes) == 1 else 0,
        # An upgrade that was interrupted has begun with a backup, and etcd's tools may be older than etcd now.
        "backup": bool(leading)
        and not cluster.external_etcd
        and not any(host.interrupted == undo.UPGRADE for host in hosts),
        "ignored_checks": [] if cluster.accepts_check else [_CHECK],
        "notes": notes(hosts, cluster, settings),
        "refusals": refusals(hosts, cluster, settings, steps, control_planes),
    }
    jobs = {host.name: entries[host.name]["jobs"] for host in steps if entries[host.name]["jobs"]}
    if settings.policy == _REFUSE and jobs and not found["refusals"]:
        found["refusals"] = [in_use(jobs)]
    found["pending"] = bool(steps)
    found["digest"] = digest(found)
    return found


def digest(found: Mapping[str, Any]) -> str:
    """Return the identity of a plan for an approval.

    It does not depend on jobs, space or images, and stays the same while the upgrade goes on, so that an approved run
    can be repeated.
    """
    approved = {part: found[part] for part in ("to", "policy", "serial")}
    text = json.dumps(
        {**approved, "hosts": {name: each["to"] for name, each in found["hosts"].items()}}, sort_keys=True
    )
    return hashlib.sha256(text.encode()).hexdigest()


def images(known: Facts, version: str, configuration: Facts, control_plane: bool) -> list[str]:
    """Return the images that a host may run with a new ``version``, of which the table has the versions of others.

    ``configuration`` is the cluster's, which may have other registries and tags, as kubeadm reads it.
    """
    if not known:
        return []
    where = as_text(configuration.get("imageRepository")) or _REGISTRY
    etcd = as_mapping(as_mapping(configuration.get("etcd")).get("local"))
    dns = as_mapping(configuration.get("dns"))
    dns_where = as_text(dns.get("imageRepository")) or where
    # In the Kubernetes project's own registry, CoreDNS has a directory of its own.
    coredns = f"{dns_where}/coredns/coredns" if dns_where == _REGISTRY else f"{dns_where}/coredns"
    own = [f"{where}/{name}:v{version}" for name in COMPONENTS if name != ETCD]
    if not as_mapping(configuration.get("etcd")).get("external"):
        own.append(f"{as_text(etcd.get('imageRepository')) or where}/etcd:{etcd.get('imageTag') or known['etcd']}")
    return [
        *(own if control_plane else []),
        f"{where}/kube-proxy:v{version}",
        f"{coredns}:{dns.get('imageTag') or known['coredns']}",
        f"{where}/pause:{known['pause']}",
    ]


def _actions(hosts: Sequence[Host], cluster: ClusterState, settings: Settings) -> dict[str, str]:
    """Return for each host how kubeadm upgrades it, empty for one whose control plane is complete, and for workers."""
    found: dict[str, str] = {}
    applied = cluster.version == settings.wanted
    for host in hosts:
        action = ""
        if host.control_plane and host.member:
            resumed = str(host.settings.get("action") or NODE) if host.interrupted == undo.UPGRADE else ""
            behind = host.kubernetes != settings.wanted
            if not applied and APPLY not in found.values():
                action = APPLY
            elif behind or resumed:
                action = resumed or NODE
        found[host.name] = action
    return found


def _entry(host: Host, action: str, cluster: ClusterState, settings: Settings) -> dict[str, Any]:
    node = cluster.node(host.node)
    kubelet = release(node.get("kubelet")) or host.kubelet
    state = kubelet_state(kubelet, host.kubelet, node.get("upgrading"), settings.wanted)
    behind = host.member and state != CURRENT
    etcd = cluster.etcd_tag or str(settings.table.get(settings.wanted, {}).get("etcd", ""))
    before, after = {"kubelet": kubelet}, {"kubelet": settings.wanted if behind else kubelet}
    if host.control_plane:
        before |= {"kubernetes": host.kubernetes, "etcd": host.etcd}
        after |= {"kubernetes": settings.wanted if action else host.kubernetes}
        keeps = not action or cluster.external_etcd or not etcd or compare_versions(etcd, host.etcd or etcd) < 0
        after |= {"etcd": host.etcd if keeps else etcd}
    packages = as_mapping(settings.table.get(settings.wanted, {}).get("packages"))
    for name, own in host.others.items():
        is_new = name in packages and (behind or (action and name in PROGRAMS))
        before[name], after[name] = own, release_of_package(packages[name]) if is_new else own
    step = NONE
    if action or behind:
        # A node in whose upgrade a run was interrupted may not be ready because of it.
        reached = host.control_plane or node.get("upgrading") or node.get("ready")
        step = FIRST if action == APPLY else UPGRADE if reached else LEAVE
    changes = step in (FIRST, UPGRADE)
    jobs = _jobs(host, cluster) if changes and behind else []
    return {
        "node": host.node,
        "step": step,
        "action": action,
        "from": before,
        "to": after,
        "jobs": jobs,
        "evicted": _evicted(host, cluster, settings, jobs) if changes and behind else [],
        "seconds": (_CONTROL_PLANE_SECONDS if action else 0) + (_KUBELET_SECONDS if changes else 0),
        "missing_images": list(host.missing) if changes else [],
        "pending": {role: list(found) for role, found in host.pending.items()},
    }


def _jobs(host: Host, cluster: ClusterState) -> list[str]:
    """Return the pods and processes that use GPUs of the host, with namespace and controller."""
    known = {str(pod.get("uid")): pod for pod in cluster.pods}
    found = [_name(known.get(str(pod.get("uid")), pod)) for pod in host.gpu_pods]
    return found + [f"{each['name']} {each['pid']} (pod {each['pod']})" for each in host.processes]


def _evicted(host: Host, cluster: ClusterState, settings: Settings, jobs: Sequence[str]) -> list[str]:
    """Return the pods that the drain of a node evicts if its GPUs are, or become, free."""
    if settings.policy == _IGNORE or (jobs and settings.policy in (_REFUSE, _DEFER)):
        return []
    return [_name(pod) for pod in cluster.pods if pod.get("node") == host.node]


def _name(pod: Mapping[str, Any]) -> str:
    name = f"{pod['namespace']}/{pod['name']}" if pod.get("name") else f"pod {pod.get('uid', '')}"
    owner = pod.get("controller") or ""
    lost = f"; its emptyDir is lost: {', '.join(pod['empty_dirs'])}" if pod.get("empty_dirs") else ""
    alone = (
        "no controller: it is not evicted, and the node is deferred"
        if "controller" in pod and not owner
        else str(owner)
    )
    return f"{name} ({alone}{lost})" if alone or lost else name
