# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what a run does with each node and with the cluster, from the facts of the hosts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...module_utils._json import as_mapping
from ...module_utils._kubeadm.init_decision import ALIVE
from .deferral import described

NONE, SKIP, CREATE, JOIN, JOIN_CONTROL_PLANE, CHANGE = "none", "skip", "create", "join", "join_control_plane", "change"
# These roles may restart or replace what running pods need.
_INTERRUPTING = frozenset({"nvidia_driver", "containerd", "nvidia_container_toolkit", "kubernetes_upgrade"})
# A kubelet that does not start with its new configuration must not affect all nodes.
_KUBELET = "kubelet configuration"
Variables = Mapping[str, Any]


@dataclass(frozen=True)
class Host:
    """``member``: whether the host is a node of a cluster, None if it was not read. ``pending`` is by role,
    ``deferred`` is the text of its record of deferred changes, ``answers``: whether its API server does."""

    name: str
    control_plane: bool
    member: bool | None
    pending: Mapping[str, Sequence[str]] = field(default_factory=dict)
    serial: str = "1"
    deferred: str = ""
    answers: bool = False


@dataclass(frozen=True)
class Node:
    """``member``: whether the host is a node already. ``interrupts``: whether its pods may be interrupted.

    ``step`` is NONE for a node with nothing to do, SKIP for a host that was not read, CREATE for one that initializes
    the cluster, a join for one that becomes a node, and CHANGE for a node with pending changes. ``why`` is its reason.
    """

    step: str
    member: bool
    interrupts: bool
    why: str


def host_of(name: str, variables: Variables, control_planes: Sequence[str]) -> Host:
    """Return a host from the facts that the roles preflight and plan set."""
    found = variables.get("preflight_host") or {}
    return Host(
        name,
        name in control_planes,
        bool(as_mapping(found.get("cluster")).get("finished")) if found else None,
        variables.get("plan_pending") or {},
        str(variables.get("plan_serial", "1")),
        str(found.get("deferred") or ""),
        as_mapping(found.get("control_plane")).get("api") == ALIVE,
    )


def api_host(hosts: Iterable[Host]) -> str:
    """Return the control plane through which the API is reached: preferably one that answers, or that is finished."""
    found = min(hosts, key=lambda host: (not host.answers, not host.member), default=None)
    return found.name if found else ""


def plan(hosts: Sequence[Host]) -> dict[str, Any]:
    """Return the plan of hosts in the order of the inventory: ``hosts``, each a Node by its name, and the ``cluster``.

    The cluster has: whether it ``exists``, or may exist because a control plane was not read; ``control_planes``;
    ``api_host``, the control plane through which the API is reached; ``joining_workers`` and
    ``joining_control_planes``; ``strategy`` and ``serial`` of the play that prepares the hosts. Bare hosts don't wait
    for each other.
    """
    control_planes = [host for host in hosts if host.control_plane]
    # An unread control plane may have a cluster.
    exists = any(host.member is not False for host in control_planes)
    nodes = {host.name: _node(host, exists, control_planes) for host in hosts}
    deferred = {host.name: described(host.deferred) for host in hosts if host.deferred}
    names = [host.name for host in control_planes]
    return {
        "hosts": {name: asdict(node) for name, node in nodes.items()},
        "cluster": {
            "exists": exists,
            "control_planes": names,
            "api_host": api_host(control_planes),
            "joining_workers": [name for name, node in nodes.items() if node.step == JOIN],
            "joining_control_planes": [name for name, node in nodes.items() if node.step == JOIN_CONTROL_PLANE],
            **_order(hosts, nodes),
        },
        "deferred": deferred,
    }


def _node(host: Host, exists: bool, control_planes: Sequence[Host]) -> Node:
    if host.member is None:
        return Node(SKIP, False, False, "the host was not read")
    if not host.member:
        return _entry(host, exists, control_planes)
    pending = [f"pending: {', '.join(host.pending)}"] if host.pending else []
    why = "; ".join([*pending, *described(host.deferred)])
    kubelet = any(change.startswith(_KUBELET) for change in host.pending.get("kubeadm", ()))
    return Node(CHANGE if pending else NONE, True, kubelet or not _INTERRUPTING.isdisjoint(host.pending), why)


def _entry(host: Host, exists: bool, control_planes: Sequence[Host]) -> Node:
    """Return how a host that is not a node becomes one."""
    if not host.control_plane:
        return Node(JOIN, False, False, "the host is not a node yet")
    if exists or host != control_planes[0]:
        return Node(JOIN_CONTROL_PLANE, False, False, "the host is not a control plane yet")
    return Node(CREATE, False, False, "there is no cluster yet")


def _order(hosts: Sequence[Host], nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return strategy and batch size: bare hosts run independently, and nodes in batches if pods are interrupted."""
    pending = [host for host in hosts if host.pending]
    interrupted = [host for host in pending if nodes[host.name].interrupts]
    waits = not pending or any(nodes[host.name].member for host in pending)
    return {
        "strategy": f"ansible.builtin.{'linear' if waits else 'free'}",
        "serial": interrupted[0].serial if interrupted else "100%",
    }
