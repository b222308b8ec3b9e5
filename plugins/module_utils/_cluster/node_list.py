# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the nodes of a cluster, and the record of those that were removed without a reset of their host. Pure.

A kubelet reports what it wants about its own node, so each value is parsed into a known form, empty if it has none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from .._files import printable
from .._json import as_mapping, as_mappings, as_text
from .._words import moment
from .objects import is_ready
from .records import KUBERNETES_UPGRADE, key

# Annotation with the inventory host of a node.
RECORD = "gpulab.io/inventory-host"
# Set by kubeadm and minikube. A kubelet can't set it on its own node (NodeRestriction).
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
# ConfigMap in which each removed node has a key until its host was reset.
NAMESPACE, REMOVED = "kube-system", "gpulab-removed-nodes"
REMOVED_PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{REMOVED}"
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_VERSION = re.compile(r"v?[0-9]{1,4}(?:\.[0-9]{1,4}){2}", re.ASCII)
_MACHINE = re.compile(r"[0-9a-f]{32}", re.ASCII)
_LONGEST_HOST = 253


def read_nodes(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the nodes in a list of the API, by name.

    Each has ``name``, ``uid``, ``ready``, ``control_plane``, ``addresses``, ``machine_id`` (of /etc/machine-id),
    ``host``, the inventory host in its record, the version of its ``kubelet``, and whether it is ``upgrading``: an
    upgrade of its kubelet has begun, and has not ended.
    """
    found = [_node(each) for each in as_mappings([*items])]
    return sorted((each for each in found if each["name"]), key=lambda each: str(each["name"]))


def read_removed(config_map: Any) -> dict[str, dict[str, str]]:
    """Return the removed nodes in the ConfigMap by name, each with its ``host``, ``machine_id`` and ``since``."""
    data = as_mapping(as_mapping(config_map).get("data"))
    return {name: entry for name, text in data.items() if _NAME.fullmatch(name) and (entry := _removed(text))}


def removed_text(host: str, machine_id: str, since: str) -> str:
    """Return the value of a removed node in the ConfigMap; ``since`` is a time in UTC."""
    return json.dumps({"host": host, "machine_id": machine_id, "since": since}, sort_keys=True)


def _node(item: Any) -> dict[str, Any]:
    metadata, status = as_mapping(item.get("metadata")), as_mapping(item.get("status"))
    plain = {"metadata": metadata, "status": {"conditions": as_mappings(status.get("conditions"))}}
    addresses = [each for each in as_mappings(status.get("addresses")) if each.get("type") == "InternalIP"]
    return {
        "name": _matching(_NAME, metadata.get("name")),
        "uid": _shown(metadata.get("uid")),
        "ready": is_ready(plain),
        "control_plane": CONTROL_PLANE in as_mapping(metadata.get("labels")),
        "addresses": [_shown(each.get("address")) for each in addresses],
        "machine_id": _machine(as_mapping(status.get("nodeInfo")).get("machineID")),
        "host": _shown(as_mapping(metadata.get("annotations")).get(RECORD)),
        "kubelet": _matching(_VERSION, as_mapping(status.get("nodeInfo")).get("kubeletVersion")),
        "upgrading": key(KUBERNETES_UPGRADE) in as_mapping(metadata.get("annotations")),
    }


def _removed(text: Any) -> dict[str, str]:
    try:
        entry = as_mapping(json.loads(as_text(text)))
    except (ValueError, RecursionError):
        return {}
    since = as_text(entry.get("since"))
    return {
        "host": _shown(entry.get("host")),
        "machine_id": _machine(entry.get("machine_id")),
        "since": since if moment(since) is not None else "",
    }


def _machine(value: Any) -> str:
    """Return a machine ID in the form of /etc/machine-id."""
    return _matching(_MACHINE, as_text(value).replace("-", "").lower())


def _matching(form: re.Pattern[str], value: Any) -> str:
    text = as_text(value)
    return text if form.fullmatch(text) else ""


def _shown(value: Any) -> str:
    return printable(as_text(value))[:_LONGEST_HOST]
