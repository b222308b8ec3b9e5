# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply the labels and taints of nodes through the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from .._errors import DomainError
from . import identity, objects
from . import nodes as node_api
from .api import Api
from .identity import Identity
from .node_list import RECORD
from .nodes import annotations_of
from .objects import Object
from .pools import ANNOTATION, Plan, Wanted, contested, homeless, ignored, malformed, plan


def ensure(
    api: Api, wishes: Mapping[str, Wanted], claims: Sequence[Identity], check: bool, warn: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Return node -> labels and taints before and after, for changed nodes. Raise DomainError before any change.

    The host of each of ``claims`` is recorded on its node.
    """
    nodes = {objects.name(node): node for node in api.items(node_api.NODES)}
    identity.refuse(list(identity.problems(nodes, claims)))
    hosts = {claim.node: claim.host for claim in claims}
    problems = list(_problems(nodes, wishes, check))
    if problems:
        raise DomainError(
            "Error while sorting the nodes into pools; nothing was changed:\n"
            + "\n".join(f"- {problem}" for problem in problems)
            + "\nCorrect cluster_node_pool, cluster_node_labels and cluster_node_taints of these hosts."
        )
    for name in wishes.keys() & nodes.keys():
        for words in ignored(nodes[name]):
            warn(
                f"The annotation {ANNOTATION} of node {name} {words}. That was ignored, and the annotation will be "
                "replaced. Remove what the node should not have manually, and find out who can annotate nodes: "
                "docs/security.md"
            )
    changes = {}
    for name, want in wishes.items():
        change = _planned(want, hosts.get(name), nodes.get(name) or _absent(name))
        if change.patch:
            changes[name] = {"before": change.before, "after": change.after}
            if not check:
                node_api.change(api, name, f"sorting node {name} into its pool", partial(_patch, want, hosts.get(name)))
    return changes


def _problems(nodes: Mapping[str, Object], wishes: Mapping[str, Wanted], check: bool) -> Any:
    for name, want in wishes.items():
        yield from (f"{name}: {words}" for words in malformed(want))
        if name in nodes:
            yield from (
                f"{name}: {words}; remove it manually, or remove it from the variables"
                for words in contested(nodes[name], want)
            )
        elif not check:
            yield f"{name}: {objects.NO_NODE}"
    absent = [_absent(name) for name in wishes if name not in nodes]
    if homeless([*nodes.values(), *absent], wishes):
        yield (
            "every node would have a taint, so pods that tolerate none of them, such as the cluster's DNS, could not "
            "run: leave the control plane or a worker without one"
        )


def _planned(want: Wanted, host: str | None, node: Object) -> Plan:
    result = plan(node, want)
    known = annotations_of(node).get(RECORD)
    if host is not None and known != host:
        metadata = result.patch.setdefault("metadata", {"resourceVersion": node["metadata"].get("resourceVersion")})
        metadata.setdefault("annotations", {})[RECORD] = host
        result.before["inventory_host"], result.after["inventory_host"] = known, host
    return result


def _patch(want: Wanted, host: str | None, node: Object) -> dict[str, Any]:
    return _planned(want, host, node).patch


def _absent(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {}}
