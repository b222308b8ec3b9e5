# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether hosts may be reset, and in which way. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ...module_utils._json import as_mapping, as_texts
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
    authority: Collection[str] = (),
) -> dict[str, Any]:
    """Return the ``problems`` as sentences, whether the ``whole`` cluster goes, and what is done before.

    ``hosts`` are the results of host_reset in check mode, with the ``node`` that the inventory names; ``selected`` are
    the hosts of this run. ``nodes`` are the names of the cluster's nodes and ``members`` those of etcd's members, None
    if they are unknown. ``authority`` are the hashes of the CA of a control plane that stays, empty if none was read.
    ``backup`` is the control plane that takes the last one, empty for none, and ``loses_etcd`` says whether the data of
    etcd may be removed afterwards.
    """
    abandoned = settings.get("abandoned") or []
    going = [host for host in control_planes if host in selected]
    whole = bool(going) and set(control_planes) <= {*selected, *abandoned}
    lost = settings.get("last_etcd_copy") == LOSE
    # An interrupted reset has agreed to lose them, and etcd no longer runs.
    having = [host for host in going if hosts.get(host, {}).get("etcd") and not hosts[host].get("begun")]
    leaves = [] if whole else [host for host in selected if host in cluster_hosts]
    without_api = bool(settings.get("without_api"))
    problems = [
        *_foreign(hosts, name, _authorities(hosts, going) if whole else [*authority]),
        *(_left_out(selected, cluster_hosts, abandoned) if whole else []),
        *_members(hosts, leaves, nodes, members, without_api),
    ]
    backup = having[0] if whole and having and not lost else ""
    return {
        "problems": problems,
        "whole": whole,
        "confirmed": settings.get("confirm") == name,
        "backup": backup,
        # A member that has left has no last copy.
        "loses_etcd": lost or bool(backup) or (not whole and members is not None),
    }


def _authorities(hosts: Mapping[str, Mapping[str, Any]], control_planes: Sequence[str]) -> list[str]:
    """Return the hashes of the CA of the first of the control planes that has one."""
    found = [as_texts(as_mapping(hosts.get(host, {}).get("cluster")).get("ca_hashes")) for host in control_planes]
    return next(filter(None, found), [])


def _foreign(hosts: Mapping[str, Mapping[str, Any]], name: str, authority: Sequence[str]) -> Iterator[str]:
    for host, found in hosts.items():
        cluster = as_mapping(found.get("cluster"))
        other, hashes = cluster.get("name") or name, as_texts(cluster.get("ca_hashes"))
        if other != name:
            yield f"{host} belongs to the cluster {other}, and not to {name}. Use the inventory of its cluster."
        elif hashes and authority and not {*hashes} & {*authority}:
            yield (
                f"{host} belongs to another cluster than {name}: its CA is another one. Check ansible_host, or use the "
                "inventory of its cluster."
            )


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
