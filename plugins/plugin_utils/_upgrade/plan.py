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

from ...module_utils._versions import compare_versions
from .._nodes.kubernetes import minors_behind, release
from .model import ClusterState, Host, Settings
from .refusals import UPGRADE as INTERRUPTED
from .refusals import notes, refusals

FIRST, UPGRADE, NONE, LEAVE = "upgrade_first", "upgrade", "none", "leave"
APPLY, NODE = "apply", "node"
# Seconds that a step takes: restarts of static pods, and of a kubelet with its checks. Waiting for jobs comes on top.
_CONTROL_PLANE, _KUBELET, _GAP = 180, 60, 45
_IGNORE, _REFUSE, _DEFER = "ignore", "refuse", "defer"
_PARTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def plan(hosts: Sequence[Host], cluster: ClusterState, settings: Settings) -> dict[str, Any]:
    """Return the plan. ``refusals`` are reasons for which nothing may change; ``digest`` identifies what is approved:
    versions, hosts, order and policy, not the jobs that happen to run."""
    release_to = settings.table.get(settings.wanted, {})
    actions = _actions(hosts, cluster, settings)
    entries = {host.name: _entry(host, actions[host.name], cluster, settings) for host in hosts}
    steps = [host for host in hosts if entries[host.name]["step"] in (FIRST, UPGRADE)]
    planes = [host.name for host in steps if host.control_plane]
    found = {
        "from": cluster.version,
        "to": settings.wanted,
        "policy": settings.policy,
        "serial": settings.serial,
        "order": {"control_planes": planes, "workers": [host.name for host in steps if not host.control_plane]},
        "hosts": entries,
        "cluster": {
            "CoreDNS": {"from": cluster.coredns, "to": str(release_to.get("coredns", ""))},
            "kube-proxy": {"from": cluster.kube_proxy, "to": f"v{settings.wanted}"},
        },
        "gap_seconds": _GAP if len(planes) == 1 == sum(host.control_plane for host in hosts) else 0,
        "notes": notes(hosts, cluster, settings),
        "refusals": refusals(hosts, cluster, settings, steps),
    }
    busy = [name for name, entry in entries.items() if entry["step"] in (FIRST, UPGRADE) and entry["jobs"]]
    if settings.policy == _REFUSE and busy and not found["refusals"]:
        found["refusals"] = [_busy(busy, entries)]
    found["pending"] = bool(steps)
    found["digest"] = digest(found)
    return found


def digest(found: Mapping[str, Any]) -> str:
    """Return the identity of a plan for an approval: it does not depend on jobs, space or images."""
    versions = {name: [entry[part] for part in ("step", "from", "to")] for name, entry in found["hosts"].items()}
    approved = {part: found[part] for part in ("from", "to", "policy", "serial", "order", "cluster")}
    text = json.dumps({**approved, "hosts": versions}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def images(settings: Settings, control_plane: bool, etcd: str = "") -> list[str]:
    """Return the images of the new version that a host may run. ``etcd`` is a tag that the cluster pins."""
    known = settings.table.get(settings.wanted)
    if not known:
        return []
    where, version = settings.repository, f"v{settings.wanted}"
    # In the Kubernetes project's own registry, CoreDNS has a directory of its own.
    coredns = f"{where}/coredns/coredns" if where == "registry.k8s.io" else f"{where}/coredns"
    own = [f"{where}/{name}:{version}" for name in _PARTS] + [f"{where}/etcd:{etcd or known['etcd']}"]
    return [
        *(own if control_plane else []),
        f"{where}/kube-proxy:{version}",
        f"{coredns}:{known['coredns']}",
        f"{where}/pause:{known['pause']}",
    ]


def _actions(hosts: Sequence[Host], cluster: ClusterState, settings: Settings) -> dict[str, str]:
    """Return for each host how kubeadm upgrades it, empty for one whose control plane is complete, and for workers."""
    found: dict[str, str] = {}
    applied = cluster.version == settings.wanted
    for host in hosts:
        action = ""
        if host.control_plane and host.member:
            resumed = str(host.settings.get("action") or NODE) if host.interrupted == INTERRUPTED else ""
            behind = host.kubernetes != settings.wanted
            if not applied and APPLY not in found.values():
                action = APPLY
            elif behind or resumed:
                action = resumed or NODE
        found[host.name] = action
    return found


def _entry(host: Host, action: str, cluster: ClusterState, settings: Settings) -> dict[str, Any]:
    kubelet = release(cluster.node(host.node).get("kubelet")) or host.kubelet
    # A package that was installed before an interruption does not run yet.
    unfinished = bool(cluster.node(host.node).get("upgrading"))
    behind = host.member and (unfinished or any(each != settings.wanted for each in (kubelet, host.kubelet)))
    etcd = cluster.etcd_tag or str(settings.table.get(settings.wanted, {}).get("etcd", ""))
    before, after = {"kubelet": kubelet}, {"kubelet": settings.wanted if behind else kubelet}
    if host.control_plane:
        before |= {"kubernetes": host.kubernetes, "etcd": host.etcd}
        after |= {"kubernetes": settings.wanted if action else host.kubernetes}
        keeps = not action or cluster.external_etcd or not etcd or compare_versions(etcd, host.etcd or etcd) < 0
        after |= {"etcd": host.etcd if keeps else etcd}
    step = NONE
    if action or behind:
        ready = cluster.node(host.node).get("ready", False)
        step = FIRST if action == APPLY else UPGRADE if host.control_plane or ready else LEAVE
    disturbed = _disturbed(host, cluster, settings) if step in (FIRST, UPGRADE) and behind else []
    jobs = _jobs(host, cluster) if step in (FIRST, UPGRADE) and behind else []
    return {
        "node": host.node,
        "step": step,
        "action": action,
        "from": before,
        "to": after,
        "minors_behind": minors_behind(kubelet, settings.wanted) if kubelet and step != NONE else 0,
        "jobs": jobs,
        "disturbed": disturbed,
        "seconds": (_CONTROL_PLANE if action else 0) + (_KUBELET if step in (FIRST, UPGRADE) else 0),
        "missing_images": list(host.missing) if step in (FIRST, UPGRADE) else [],
        "pending": {role: list(changes) for role, changes in host.pending.items()},
    }


def _jobs(host: Host, cluster: ClusterState) -> list[str]:
    """Return the pods and processes that use GPUs of the host, with namespace and controller."""
    known = {str(pod.get("uid")): pod for pod in cluster.pods}
    found = [_name(known.get(str(pod.get("uid")), pod)) for pod in host.gpu_pods]
    return found + [f"{each['name']} {each['pid']} (pod {each['pod']})" for each in host.processes]


def _disturbed(host: Host, cluster: ClusterState, settings: Settings) -> list[str]:
    """Return the pods that the drain of a node evicts if its GPUs are, or become, free."""
    if settings.policy == _IGNORE:
        return []
    busy = {str(pod.get("uid")) for pod in host.gpu_pods}
    if busy and settings.policy in (_REFUSE, _DEFER):
        return []
    return [_name(pod) for pod in cluster.pods if pod.get("node") == host.node]


def _name(pod: Mapping[str, Any]) -> str:
    name = f"{pod['namespace']}/{pod['name']}" if pod.get("name") else f"pod {pod.get('uid', '')}"
    owner = pod.get("controller") or ""
    lost = f"; its emptyDir is lost: {', '.join(pod['empty_dirs'])}" if pod.get("empty_dirs") else ""
    alone = (
        "no controller: it is not evicted, and the node is left" if "controller" in pod and not owner else str(owner)
    )
    return f"{name} ({alone}{lost})" if alone or lost else name


def _busy(busy: Sequence[str], entries: Mapping[str, Mapping[str, Any]]) -> str:
    users = "; ".join(f"{name}: {', '.join(entries[name]['jobs'])}" for name in busy)
    return (
        f"GPUs are in use ({users}), and cluster_disruption_policy is refuse. Choose what happens to these jobs: "
        "-e cluster_disruption_policy=defer (upgrade everything else now, and these nodes when a later run finds them "
        "free), =wait (until they end), =signal (evict them, with time to save), =drain (evict them)."
    )
