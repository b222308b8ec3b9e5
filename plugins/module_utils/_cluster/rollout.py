# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Determine what a rollout still lacks on named nodes, from objects of the API. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from . import objects
from .objects import Object

_GENERATION = "deprecated.daemonset.template.generation"
_POD_GENERATION = "pod-template-generation"


@dataclass(frozen=True)
class Wanted:
    """The wanted state: pods of DaemonSets on these nodes, available Deployments, allocatable resources by node.

    With ``cluster_policy``, its operands must be ready, too. ``tolerate_unhealthy`` accepts unhealthy GPUs.
    """

    cluster_policy: str = ""
    daemonsets: tuple[str, ...] = ()
    deployments: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    nodes_ready: bool = False
    allocatable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    tolerate_unhealthy: bool = False


@dataclass(frozen=True)
class Seen:
    """Objects in the API: nodes, ClusterPolicies, and the workloads, pods, leases and events of one namespace."""

    nodes: Sequence[Object] = ()
    policies: Sequence[Object] = ()
    daemonsets: Sequence[Object] = ()
    deployments: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    leases: Sequence[Object] = ()

    @cached_property
    def pods_by_node(self) -> Mapping[str, Sequence[Object]]:
        return objects.grouped(self.pods, objects.node_of)

    @cached_property
    def events_by_pod(self) -> Mapping[str, Sequence[Object]]:
        return objects.grouped(self.events, objects.subject)


@dataclass(frozen=True)
class Missing:
    """One difference from the wanted state. ``pod`` is the pod whose log may show the reason.

    ``final``: it is likely to persist; ``unhealthy``: the device plugin knows these GPUs but does not offer them. After
    ``backoff`` seconds, the pod's container has been restarted and had time to fail again.
    """

    node: str
    text: str
    pod: str = ""
    final: bool = False
    unhealthy: bool = False
    backoff: float = 0

    def fields(self) -> dict[str, str]:
        return {"node": self.node, "text": self.text}

    def __str__(self) -> str:
        return f"{self.node}: {self.text}" if self.node else self.text


def available(deployment: Object) -> bool:
    """Return whether a Deployment has enough available pods of its current template."""
    status = deployment.get("status") or {}
    current = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    ready = min(status.get("updatedReplicas") or 0, status.get("availableReplicas") or 0)
    return bool(current and ready >= deployment["spec"].get("replicas", 1))


def selects(workload: Object, pod: Object) -> bool:
    """Return whether a DaemonSet or Deployment selects a pod."""
    labels = pod["metadata"].get("labels") or {}
    wanted = workload["spec"]["selector"].get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def unready(pod: Object, what: str, seen: Seen) -> Missing:
    """Return why a pod of ``what`` is not ready."""
    found = objects.trouble(pod, seen.events_by_pod.get(pod["metadata"].get("uid") or "", ())) or objects.Trouble(
        f"pod {objects.name(pod)} is not ready yet ({objects.phase(pod)})"
    )
    return Missing(
        objects.node_of(pod), f"{what}: {found.text}", objects.name(pod), found.final, backoff=objects.backoff(pod)
    )


def acceptable(wanted: Wanted, found: Iterable[Missing]) -> bool:
    """Return whether nothing is missing except what is tolerated."""
    return all(entry.unhealthy and wanted.tolerate_unhealthy for entry in found)


def missing(wanted: Wanted, seen: Seen) -> list[Missing]:
    """Return all differences from the wanted state, in the order of nodes; for a ClusterPolicy see operator."""
    nodes, chosen = {objects.name(node): node for node in seen.nodes}, set(wanted.nodes)
    found = [entry for deployment in wanted.deployments for entry in _deployment(deployment, seen)]
    for node in dict.fromkeys([*wanted.nodes, *wanted.allocatable]):
        if node not in nodes:
            found.append(Missing(node, objects.NO_NODE, final=True))
            continue
        if node in chosen:
            for daemonset in wanted.daemonsets:
                found += _daemonset(daemonset, nodes[node], seen)
        if wanted.nodes_ready and not objects.is_ready(nodes[node]):
            found.append(Missing(node, objects.not_ready_reason(nodes[node])))
        found += _allocatable(wanted, nodes[node], seen)
    return found


def _deployment(wanted: str, seen: Seen) -> Iterable[Missing]:
    found = _named(seen.deployments, wanted)
    if found is None:
        yield Missing("", f"there is no Deployment {wanted}")
        return
    if available(found):
        return
    for pod in seen.pods:
        if _of(found, pod) and not objects.is_ready(pod):
            yield unready(pod, f"Deployment {wanted}", seen)
            return
    yield Missing("", f"Deployment {wanted} is not available yet")


def _daemonset(wanted: str, node: Object, seen: Seen) -> Iterable[Missing]:
    where = objects.name(node)
    found = _named(seen.daemonsets, wanted)
    if found is None:
        yield Missing(where, f"there is no DaemonSet {wanted}")
        return
    pods = [pod for pod in seen.pods_by_node.get(where, ()) if _of(found, pod)]
    if not pods:
        yield Missing(where, f"DaemonSet {wanted} has no pod on this node{_asks(found)}")
    elif not any(objects.is_ready(pod) and _current(pod, found) for pod in pods):
        yield unready(pods[-1], f"DaemonSet {wanted}", seen)


def _allocatable(wanted: Wanted, node: Object, seen: Seen) -> Iterable[Missing]:
    where = objects.name(node)
    amounts = wanted.allocatable.get(where)
    if amounts is None:
        return
    # Resources that the device plugin offered before a change of sharing must be gone.
    former = {name: 0 for name in objects.gpu_resources(node) if name not in amounts}
    wrong = {
        name: want
        for name, want in {**former, **amounts}.items()
        if objects.quantity(node, "allocatable", name) != want
    }
    if not wrong:
        return
    sets = [found for found in seen.daemonsets if objects.name(found) in wanted.daemonsets]
    pods = [pod for pod in seen.pods_by_node.get(where, ()) if any(_of(found, pod) for found in sets)]
    pod = objects.name(pods[0]) if pods else ""
    for name, want in wrong.items():
        have, capacity = objects.quantity(node, "allocatable", name), objects.quantity(node, "capacity", name)
        what = "GPUs" if name == objects.GPU else name
        ill = f", {capacity - have} of {capacity} are unhealthy" if capacity > have and want else ""
        unhealthy = bool(want) and have < capacity == want
        yield Missing(where, f"{have} of {want} {what} are allocatable{ill}", pod, unhealthy=unhealthy)


def _current(pod: Object, daemonset: Object) -> bool:
    """Return whether a pod was created from the DaemonSet's current template."""
    want = (daemonset["metadata"].get("annotations") or {}).get(_GENERATION)
    have = (pod["metadata"].get("labels") or {}).get(_POD_GENERATION)
    observed = (daemonset.get("status") or {}).get("observedGeneration", 0)
    return observed >= daemonset["metadata"].get("generation", 0) and (want is None or have is None or want == have)


def _asks(daemonset: Object) -> str:
    """Return the labels that a DaemonSet requires on nodes, as the end of a sentence."""
    spec = daemonset["spec"]["template"]["spec"]
    affinity = spec.get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [
        " and ".join(
            f"{each['key']} {each['operator']} {','.join(each.get('values') or [])}".rstrip() for each in expressions
        )
        for expressions in (term.get("matchExpressions") or [] for term in required.get("nodeSelectorTerms") or [])
    ]
    selector = [f"{key}={value}" for key, value in sorted((spec.get("nodeSelector") or {}).items())]
    asked = " and ".join([*selector, *([", or ".join(terms)] if terms else [])])
    return f" (it asks for the label {asked})" if asked else ""


def _of(workload: Object, pod: Object) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and selects(workload, pod)


def _named(things: Sequence[Object], wanted: str) -> Object | None:
    return next((thing for thing in things if objects.name(thing) == wanted), None)
