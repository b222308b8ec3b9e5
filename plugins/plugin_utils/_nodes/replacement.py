# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what the cluster loses of a machine that is replaced by a new one under its name. Pure.

Two machines must never have one name, so nothing is removed while the former machine runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils._cluster.identity import RECORD
from ...module_utils._etcd.members import HEALTHY
from ...module_utils._json import as_mapping, as_mappings, as_text
from ...module_utils._words import listing


def replacement_plan(
    host: str, found: Mapping[str, Any], nodes: Sequence[Any], members: Sequence[Any]
) -> dict[str, list[str] | str]:
    """Return names of ``nodes`` and ids of ``members`` of etcd that go, and the ``problem``, empty if there is none.

    ``found`` is what preflight has read of the new machine, ``nodes`` are those of the API, ``members`` those of
    etcd_info, none for a worker.
    """
    name = as_text(found.get("node_name"))
    old = [each for each in as_mappings(list(nodes)) if _is_of(each, host, name)]
    names = [as_text(as_mapping(each.get("metadata")).get("name")) for each in old]
    left = [each for each in as_mappings(list(members)) if each.get("name") in {name, *names}]
    return {
        "nodes": names,
        "members": [as_text(each.get("id")) for each in left],
        "problem": _problem(host, found, old, left),
    }


def _problem(
    host: str, found: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], members: Sequence[Mapping[str, Any]]
) -> str:
    if as_mapping(found.get("cluster")).get("begun"):
        return (
            f"{host} is in a cluster already. Put the address of the new machine, which has no cluster, into the "
            "inventory (ansible_host)."
        )
    runs = [as_text(as_mapping(each.get("metadata")).get("name")) for each in nodes if _is_ready(each)]
    runs += [as_text(each.get("name")) for each in members if each.get("health") == HEALTHY]
    if runs:
        return (
            f"the former machine runs: {listing(dict.fromkeys(runs))} is healthy. Switch it off, and wait until its "
            "node is no longer ready, which takes up to a minute."
        )
    return ""


def _is_of(node: Mapping[str, Any], host: str, name: str) -> bool:
    """Return whether a node belongs to a host: by the record on it, else by its name."""
    metadata = as_mapping(node.get("metadata"))
    record = as_mapping(metadata.get("annotations")).get(RECORD)
    return record == host if record is not None else metadata.get("name") == name


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = as_mappings(as_mapping(node.get("status")).get("conditions"))
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
