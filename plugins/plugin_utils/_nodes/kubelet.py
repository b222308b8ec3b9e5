# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide how settings of KubeletConfiguration reach the nodes and the configuration in the cluster. Pure.

While the configuration in the cluster differs from the inventory, nodes whose own configuration differs are changed.
The one in the cluster follows when all nodes have the settings. What was edited on a node stays as long as the
inventory and the cluster agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from ...module_utils._json import as_mapping
from ...module_utils._mappings import merged
from .._preflight.differences import differences
from .._shutdown import with_possible_periods
from .document import read_document

# Settings on which running pods, containerd or kubeadm rely, and the one that each host has for itself.
_FIXED = frozenset(
    (
        "apiVersion",
        "cgroupDriver",
        "clusterDNS",
        "clusterDomain",
        "containerRuntimeEndpoint",
        "kind",
        "podCIDR",
        "providerID",
        "resolvConf",
        "staticPodPath",
    )
)


def is_changeable(path: str) -> bool:
    """Return whether a setting of KubeletConfiguration can change in a running cluster."""
    return path.partition(".")[0] not in _FIXED


def kubelet_plan(
    recorded: Any, inventory: Mapping[str, Any], node: Any = "", arguments: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the new configuration of the cluster (``cluster``), and that of a node as text (``node``).

    ``recorded`` and ``node`` are the present texts, ``arguments`` those of the kubelet's command line. What does not
    change is empty; ``why`` has the settings that the node lacks.
    """
    made = read_document(recorded)
    wanted = {key: value for key, value in inventory.items() if is_changeable(key)}
    if not made or not [*differences(wanted, made)]:
        return {"cluster": {}, "node": "", "why": []}
    own = read_document(node)
    why = [path for path, _wanted, _there in differences(wanted, own)] if own else []
    kept = with_possible_periods(own, made, inventory, arguments or {})
    text = yaml.safe_dump(merged(kept, _plain(wanted)), default_flow_style=False) if why else ""
    return {"cluster": merged(made, _plain(wanted)), "node": text, "why": why}


def kubelet_upload(
    plan: Mapping[str, Any], hosts: Iterable[str], hostvars: Mapping[str, Any], there: Sequence[str]
) -> dict[str, Any]:
    """Return the configuration that the cluster has to store now, empty if some of its ``hosts`` may lack the settings.

    ``there`` are the hosts that have not failed. A host that deferred a change may not have come to this one.
    """
    behind = [host for host in hosts if host not in there or _may_lack_settings(hostvars[host])]
    return {} if behind else dict(plan["cluster"])


def _may_lack_settings(variables: Mapping[str, Any]) -> bool:
    found = as_mapping(variables.get("preflight_host")).get("cluster")
    return bool(variables.get("node_change_deferred")) or is_unreadable(as_mapping(found))


def is_unreadable(cluster: Mapping[str, Any]) -> bool:
    """Return whether a host is a node whose kubelet's configuration preflight could not return, or no one can read."""
    return bool(cluster.get("finished")) and not read_document(cluster.get("kubelet_configuration"))


def _plain(value: Any) -> Any:
    """Return the value with types that a YAML file can have; Ansible's own are subclasses."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)
