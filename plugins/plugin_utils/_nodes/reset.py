# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether hosts may be reset, and in which way. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ...module_utils._words import listing

LOSE = "lose"
_REMOVE_FIRST = "ansible-playbook gpulab.kubernetes.remove_node -i INVENTORY -e node={}"


def decide(
    hosts: Mapping[str, Mapping[str, Any]],
    selected: Sequence[str],
    cluster_hosts: Sequence[str],
    control_planes: Sequence[str],
    name: str,
    settings: Mapping[str, Any],
    nodes: Collection[str] | None = None,
    members: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the ``problems`` as sentences, whether the ``whole`` cluster goes, and what is done before.

    ``hosts`` are the results of host_reset in check mode, with the ``node`` that the inventory names; ``selected`` are
    the hosts of this run. ``nodes`` are the names of the cluster's nodes and ``members`` those of etcd's members, None
    if they are unknown. ``backup`` says whether one has to be taken, and ``loses_etcd`` whether the data of etcd may be
    removed afterwards.
    """
    whole = bool(control_planes) and set(control_planes) <= set(selected)
    lost = settings.get("last_etcd_copy") == LOSE
    # An interrupted reset has agreed to lose them, and etcd no longer runs.
    has_etcd = any(found.get("etcd") and not found.get("begun") for found in hosts.values())
    leaves = [] if whole else [host for host in selected if host in cluster_hosts]
    without_api = bool(settings.get("without_api"))
    problems = [
        *_foreign(hosts, name),
        *(_left_out(selected, cluster_hosts, settings.get("abandoned") or []) if whole else []),
        *_members(hosts, leaves, nodes, members, without_api),
    ]
    backup = whole and has_etcd and not lost
    return {
        "problems": problems,
        "whole": whole,
        "confirmed": settings.get("confirm") == name,
        "backup": backup,
        # A member that has left has no last copy.
        "loses_etcd": lost or backup or (not whole and members is not None),
    }


def _foreign(hosts: Mapping[str, Mapping[str, Any]], name: str) -> Iterator[str]:
    for host, found in hosts.items():
        other = (found.get("cluster") or {}).get("name") or name
        if other != name:
            yield f"{host} belongs to the cluster {other}, and not to {name}. Use the inventory of its cluster."


def _left_out(selected: Sequence[str], cluster_hosts: Sequence[str], abandoned: Sequence[str]) -> Iterator[str]:
    left = [host for host in cluster_hosts if host not in selected and host not in abandoned]
    if left:
        words = f"-e '{json.dumps({'reset_abandoned_hosts': left})}'"
        yield (
            f"Without its control plane, {listing(left)} would keep parts of a cluster that no longer exists. Run this "
            f"without --limit. If these hosts are lost, add {words}."
        )


def _members(
    hosts: Mapping[str, Mapping[str, Any]],
    leaves: Sequence[str],
    nodes: Collection[str] | None,
    members: Collection[str] | None,
    without_api: bool,
) -> Iterator[str]:
    for host in leaves:
        found = hosts.get(host, {})
        names = {(found.get("cluster") or {}).get("node_name"), found.get("node")} - {None, ""}
        if nodes is not None and names & set(nodes):
            yield f"{host} is still a node of the cluster. First run {_REMOVE_FIRST.format(host)}."
        elif found.get("etcd") and members is not None and names & set(members):
            yield f"{host} is still a member of etcd. First run {_REMOVE_FIRST.format(host)}."
        elif not without_api and (nodes is None or (found.get("etcd") and members is None)):
            yield (
                f"The cluster can't be asked whether {host} has left it. Repair its API, or if the cluster no longer "
                "exists, add -e reset_without_api=true."
            )
