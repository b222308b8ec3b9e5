# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for machines that were replaced, reinstalled or removed while the cluster knew them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .._nodes.removal import wanted_names
from .model import Cluster, ClusterRule, Facts, Reading
from .recorded import control_plane_facts

_REMOVE = "ansible-playbook gpulab.kubernetes.remove_node -i INVENTORY -e node={}"
_FORGET = (
    "kubectl --namespace kube-system patch configmap gpulab-removed-nodes --type merge "
    """--patch '{"data": {"NAME": null}}'"""
)
_REPLACE = "ansible-playbook gpulab.kubernetes.replace_node -i INVENTORY -e node={}"


def machine_of_node(cluster: Cluster) -> Iterator[Problem]:
    """Check hosts that are not nodes yet, but have the name, the address or the inventory entry of a node."""
    nodes = _nodes(cluster)
    for reading in _judged(cluster):
        if not reading.facts["cluster"]["begun"]:
            yield from _place(reading, nodes, reading.host in wanted_names(cluster.settings.get("replaces")))


def _place(reading: Reading, nodes: dict[str, Facts], replaced: bool) -> Iterator[Problem]:
    name, address = str(reading.settings["node_name"]), str(reading.settings["node_address"])
    mine, machine = nodes.get(name), reading.facts.get("machine_id")
    others = [node for node in nodes.values() if node["name"] != name]
    if mine and mine["machine_id"] and machine and mine["machine_id"] != machine:
        if not replaced:
            yield reading.problem(
                "node_of_former_machine",
                f"The cluster has a node {name} ({_state(mine)}) of another machine or of an earlier installation of "
                "this one, which has no files of kubeadm",
                "node name, /etc/machine-id",
                "The host would take over its labels and its record, and claims would expect their local volumes here",
                f"If the machine was reinstalled or replaced: `{_REPLACE.format(reading.host)}`. Otherwise, give the "
                "host another name",
            )
    elif address and (taken := [node for node in others if address in node["addresses"]]):
        yield reading.problem(
            "node_address_taken",
            f"The address {address} of this host is that of the node {taken[0]['name']} ({_state(taken[0])})",
            "cluster_node_address, DHCP",
            "Two machines can't have one address. The host is not a node yet",
            f"If the machine of {taken[0]['name']} is gone, or this is it with another name, remove that node, and "
            f"run this again: `{_REMOVE.format(taken[0]['name'])}`. Otherwise, give one of them another address",
        )
    elif (former := [node for node in others if node["host"] == reading.host]) and not replaced:
        yield reading.problem(
            "host_is_another_machine",
            f"In the cluster, this host is the node {former[0]['name']} ({_state(former[0])}), but the machine that "
            f"answers calls itself {name}, and has no files of kubeadm",
            "ansible_host, host name",
            "Another machine may have the address of the host now",
            f"If the machine was replaced: `{_REPLACE.format(reading.host)}`. Otherwise, correct ansible_host",
        )


def node_deleted(cluster: Cluster) -> Iterator[Problem]:
    """Check hosts that have the files of a node, but whose node was deleted in the cluster."""
    nodes = _nodes(cluster)
    for shown, found in control_plane_facts(cluster) if nodes else ():
        ours = set(shown.facts["cluster"]["ca_hashes"])
        for reading in _judged(cluster):
            state = reading.facts["cluster"]
            name = str(state.get("node_name") or reading.settings["node_name"])
            if reading.finished and name not in nodes and ours & set(state["ca_hashes"]):
                yield _deleted(reading, name, (found.get("removed_nodes") or {}).get(name))


def _deleted(reading: Reading, name: str, removed: Any) -> Problem:
    since = f" on {removed['since']}" if removed and removed["since"] else ""
    how = (
        f"it was removed{since} while the host could not be reset"
        if removed
        else "it was deleted there, or the host has an old disk"
    )
    return reading.problem(
        "node_deleted",
        f"The host has the files of the node {name} of this cluster, which has no such node: {how}",
        "/etc/kubernetes, /var/lib/kubelet",
        "kubeadm can't join it again while it has these files, and its local volumes may be old",
        f"Reset the host, and run this again: `{_REMOVE.format(reading.host)}` (or kubeadm reset on the host). If the "
        "node was deleted by mistake, systemctl restart kubelet on the host brings it back",
    )


def not_reset(cluster: Cluster) -> Iterator[Problem]:
    """Name removed nodes whose host was not reset, and that no host of this run has."""
    for _reading, found in control_plane_facts(cluster):
        names = {str(each.facts["cluster"].get("node_name") or each.settings["node_name"]) for each in cluster.read}
        names |= {*_nodes(cluster)}
        gone = [
            f"{name} ({entry['since'] or 'at an unknown time'})"
            for name, entry in sorted((found.get("removed_nodes") or {}).items())
            if name not in names
        ]
        if gone:
            yield Problem(
                "nodes_not_reset",
                f"These nodes were removed while their machines could not be reset: {listing(gone)}",
                "ConfigMap kube-system/gpulab-removed-nodes",
                "They are gone, not fenced: keys of the cluster are still on their disks",
                f"When a machine is back, reset it: `{_REMOVE.format('NAME')}`. If its disks were erased: `{_FORGET}`",
            )


def unknown_nodes(cluster: Cluster) -> Iterator[Problem]:
    """Name nodes of the cluster that the inventory does not have; hosts outside of the run are known by their record,
    name or address."""
    hosts = cluster.settings.get("hosts") or ()
    names = {*hosts, *(str(reading.settings["node_name"]) for reading in cluster.read)}
    addresses = {*(cluster.settings.get("addresses") or ())}
    unknown = [
        f"{node['name']} ({_state(node)})"
        for node in _nodes(cluster).values()
        if hosts and node["host"] not in hosts and node["name"] not in names and not addresses & {*node["addresses"]}
    ]
    if unknown:
        yield Problem(
            "nodes_unknown",
            f"The cluster has nodes that the inventory does not name: {listing(unknown)}",
            "inventory",
            "This collection leaves them as they are, and does not verify their GPUs",
            "Add their machines to the inventory, or remove the nodes: " + f"`{_REMOVE.format('NAME')}`",
        )


def _nodes(cluster: Cluster) -> dict[str, Facts]:
    return {each["name"]: each for _reading, found in control_plane_facts(cluster) for each in found.get("nodes") or ()}


def _judged(cluster: Cluster) -> list[Reading]:
    """Return the hosts of this run, without the control plane that shows what the cluster has."""
    return [each for each in cluster.read if each != cluster.control_plane and not each.left_out]


def _state(node: Facts) -> str:
    return "Ready" if node["ready"] else "NotReady"


RULES: tuple[ClusterRule, ...] = (machine_of_node, node_deleted)
NOTES: tuple[ClusterRule, ...] = (unknown_nodes, not_reset)
