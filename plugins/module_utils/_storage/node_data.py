# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the volumes whose data leave with nodes, and node selectors that only these nodes match. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .._cluster.nodes import labels_of
from .._cluster.objects import Object, name, node_of
from .volumes import claim_names

_NAME = "metadata.name"


def lost_volumes(
    volumes: Iterable[Object], pods: Iterable[Object], nodes: Sequence[Object], leaving: Collection[str], servers: Any
) -> list[dict[str, str]]:
    """Return the volumes that no node can use any more without the ``leaving`` ones (names), by name.

    ``servers`` are names and addresses of the leaving machines, which may serve NFS. Each volume has its ``name``,
    ``claim`` (NAMESPACE/NAME, empty if it was never bound), and ``where`` its data are. What is on a node without
    saying so (hostPath without node affinity) counts if a pod on a leaving node uses it.
    """
    used = {
        f"{pod['metadata'].get('namespace')}/{claim}"
        for pod in pods
        if node_of(pod) in leaving
        for claim in claim_names(pod["spec"])
    }
    going, staying = _split(nodes, leaving)
    found = [
        {"name": name(volume), "claim": _claim(volume), "where": where}
        for volume in volumes
        if (where := _place(volume, going, staying, used, servers))
    ]
    return sorted(found, key=lambda each: each["name"])


def stranded(
    selectors: Mapping[str, Mapping[str, str]], nodes: Sequence[Object], leaving: Collection[str]
) -> list[str]:
    """Return the names of the node selectors that match a leaving node, but no other one."""
    going, staying = _split(nodes, leaving)
    return sorted(
        each
        for each, wanted in selectors.items()
        if any(_has(node, wanted) for node in going) and not any(_has(node, wanted) for node in staying)
    )


def _split(nodes: Sequence[Object], leaving: Collection[str]) -> tuple[list[Object], list[Object]]:
    return [node for node in nodes if name(node) in leaving], [node for node in nodes if name(node) not in leaving]


def _place(
    volume: Object, going: Sequence[Object], staying: Sequence[Object], used: Collection[str], servers: Collection[str]
) -> str:
    """Return where the data of a volume are, empty if they stay."""
    spec = volume["spec"]
    nfs = spec.get("nfs") or {}
    if nfs.get("server") in servers:
        return f"NFS {nfs['server']}:{nfs.get('path')}"
    path = next((each["path"] for key in ("local", "hostPath") if "path" in (each := spec.get(key) or {})), "")
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    if terms is None:
        return f"{path} on a node" if spec.get("hostPath") and _claim(volume) in used else ""
    nodes = [name(node) for node in going if _selects(terms, node)]
    if not nodes or any(_selects(terms, node) for node in staying):
        return ""
    return f"{path or 'storage'} on {', '.join(nodes)}"


def _selects(terms: Any, node: Object) -> bool:
    """Return whether a node selector selects a node; a term without requirements selects none."""
    return any(
        bool(each.get("matchExpressions") or each.get("matchFields"))
        and all(_meets(labels_of(node), requirement) for requirement in each.get("matchExpressions") or [])
        and all(_meets({_NAME: name(node)}, requirement) for requirement in each.get("matchFields") or [])
        for each in terms
    )


def _meets(values: Mapping[str, str], requirement: Mapping[str, Any]) -> bool:
    value, wanted = values.get(requirement["key"]), requirement.get("values") or []
    operator = requirement["operator"]
    if operator in ("Gt", "Lt"):
        numbers = [str(each) for each in (value, *wanted[:1])]
        if len(numbers) != 2 or not all(each.lstrip("-").isdecimal() for each in numbers):
            return False
        return int(numbers[0]) > int(numbers[1]) if operator == "Gt" else int(numbers[0]) < int(numbers[1])
    if operator in ("Exists", "DoesNotExist"):
        return bool((value is not None) == (operator == "Exists"))
    return bool((value in wanted) == (operator == "In"))


def _has(node: Object, wanted: Mapping[str, str]) -> bool:
    return all(labels_of(node).get(key) == str(value) for key, value in wanted.items())


def _claim(volume: Object) -> str:
    reference = volume["spec"].get("claimRef")
    return f"{reference.get('namespace')}/{reference.get('name')}" if reference else ""
