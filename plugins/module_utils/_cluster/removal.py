# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the nodes that are to be removed, delete them, and remember those whose host was not reset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._errors import DomainError
from .._words import listing
from . import nodes
from .api import Api, ApiError
from .identity import Identity
from .identity import problem as claim_problem
from .node_list import NAMESPACE, RECORD, REMOVED, REMOVED_PATH, read_nodes
from .nodes import Object
from .objects import OWNER, OWNER_LABEL, full_name, gpu_resources, name, phase, requested
from .waiting import until_gone

_CONFLICT = 409
_TO_GO = 60


def targets(
    wanted: Sequence[str],
    found: Sequence[Object],
    removed: Mapping[str, Mapping[str, str]],
    claims: Mapping[str, Identity],
    hosts: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """Yield what is known of each wanted name, which is that of an inventory host, or else of a node.

    ``claims`` are by inventory host, ``hosts`` are all of the inventory. The result has the ``name``, the ``host``
    (empty if the inventory has none), the node that the host ``claimed`` to be, the ``addresses`` in the inventory, the
    ``node`` (as in ``read_nodes``, None if there is none), its entry among the ``removed`` ones (or None), and a
    ``problem``.
    """
    entries = {entry["name"]: entry for entry in read_nodes(found)}
    objects = {name(node): node for node in found}
    for each in wanted:
        claim = claims.get(each)
        recorded = [entry for entry in entries.values() if entry["host"] == each] if claim else []
        known = [key for key, entry in removed.items() if key == each or entry["host"] == each]
        own = entries.get((claim.node or each) if claim else each)
        entry = recorded[0] if recorded else own
        # A kubelet can write the annotation on its own node.
        rivals = [*dict.fromkeys(str(one["name"]) for one in (*recorded, *([own] if own and recorded else [])))]
        problem = _problem(each, claim, objects.get(entry["name"]) if entry else None, bool(known), hosts)
        yield {
            "name": each,
            "host": each if claim else "",
            "claimed": claim.node if claim else each,
            "addresses": list(claim.addresses) if claim else [],
            "node": entry,
            "removed": {"name": known[0], **removed[known[0]]} if known and not entry else None,
            "problem": _rivalry(each, rivals) if len(rivals) > 1 else problem,
        }


def _problem(wanted: str, claim: Identity | None, node: Object | None, known: bool, hosts: Sequence[str]) -> str:
    """Return why a name can't be used, as a sentence without a full stop."""
    if claim:
        words = claim_problem(node, replace(claim, node=name(node))) if node else ""
        return f"host {wanted} is not the host of node {name(node)}: {words}" if node and words else ""
    if node is None:
        return "" if known else f"{wanted} is neither a host of the inventory nor a node of the cluster"
    owner = nodes.annotations_of(node).get(RECORD)
    return f"{wanted} is the node of the host {owner}. Use -e node={owner}" if owner in hosts else ""


def _rivalry(host: str, names: Sequence[str]) -> str:
    return (
        f"the nodes {listing(names)} are all said to be the host {host} (annotation {RECORD}, or their name). Remove "
        f"the annotation of those that are not: kubectl annotate node NAME {RECORD}-"
    )


def gpu_pods(pods: Sequence[Object], node: Object) -> list[dict[str, Any]]:
    """Return the pods that hold GPUs of a node whose host can't be asked, in the form of gpu_pods_info."""
    resources = gpu_resources(node)
    return [
        {
            "uid": str(pod["metadata"].get("uid")),
            "namespace": full_name(pod).partition("/")[0],
            "name": name(pod),
            "empty_dirs": [each["name"] for each in pod["spec"].get("volumes") or [] if "emptyDir" in each],
        }
        for pod in pods
        if phase(pod) not in ("Succeeded", "Failed")
        and (pod["spec"].get("resourceClaims") or any(requested(pod, each) for each in resources))
    ]


def remember(api: Api, node: str, text: str | None) -> bool:
    """Store the entry of a removed node, or remove it (None), with those of nodes that exist again.

    Return whether there was a change to make.
    """
    there = (api.find(REMOVED_PATH) or {}).get("data") or {}
    present = {each["name"] for each in read_nodes(api.items(nodes.NODES))}
    changes: dict[str, str | None] = {key: None for key in there if key in present and key != node}
    if there.get(node) != text:
        changes[node] = text
    if changes and there:
        api.merge(REMOVED_PATH, {"data": changes})
    elif changes:
        metadata = {"name": REMOVED, "namespace": NAMESPACE, "labels": {OWNER_LABEL: OWNER}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": changes}
        api.apply(REMOVED_PATH, body)
    return bool(changes)


def delete(api: Api, node: str, uid: str) -> None:
    """Delete a node, and wait until it is gone. Raise DomainError if another one has its name now."""
    try:
        api.delete(nodes.path(node), uid=uid)
    except ApiError as error:
        if error.status == _CONFLICT:
            raise DomainError(
                f"Error while deleting node {node}: another machine has joined with its name meanwhile ({error}). "
                "Run this again."
            ) from error
        raise
    if until_gone(lambda: [uid for each in (api.find(nodes.path(node)),) if _is(each, uid)], _TO_GO):
        raise DomainError(
            f"Error while deleting node {node}: it is still there after {_TO_GO} s. Its finalizers may keep it: "
            f"kubectl get node {node} -o yaml"
        )


def _is(node: Object | None, uid: str) -> bool:
    return node is not None and node["metadata"].get("uid") == uid
