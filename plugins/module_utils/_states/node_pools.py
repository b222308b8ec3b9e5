# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels and taints of nodes in pools."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from .._cluster import identity
from .._cluster.api import Api
from .._cluster.pools import EFFECTS, wanted
from .._cluster.pools_run import ensure as ensure_pools
from .._errors import DomainError

_TAINT = {
    "key": {"type": "str", "required": True, "no_log": False},
    "value": {"type": "str", "default": ""},
    "effect": {"type": "str", "choices": list(EFFECTS), "default": EFFECTS[0]},
}
_NODE = {
    "name": {"type": "str", "required": True},
    "identity": {"type": "dict"},
    "labels": {"type": "dict", "default": {}},
    "taints": {"type": "list", "elements": "dict", "default": [], "options": _TAINT},
}


def ensure(module: Any) -> dict[str, Any]:
    wishes = {node["name"]: wanted(node["labels"], node["taints"]) for node in module.params["nodes"]}
    claims = [
        identity.read(node["identity"], node["name"])
        for node in module.params["nodes"]
        if node.get("identity") is not None
    ]
    listed, claimed = Counter(node["name"] for node in module.params["nodes"]), Counter(claim.node for claim in claims)
    # Two claims of one node are reported with the hosts' names.
    twice = sorted(name for name, times in listed.items() if times > 1 >= claimed[name])
    if twice:
        raise DomainError(
            f"Error while sorting the nodes into pools: node {', '.join(twice)} is listed more than once. Nothing was "
            "changed."
        )
    changes = ensure_pools(Api(module.params["kubeconfig"]), wishes, claims, module.check_mode, module.warn)
    sides = {
        side: json.dumps({node: change[side] for node, change in changes.items()}, indent=2) + "\n"
        for side in ("before", "after")
    }
    return {"changed": bool(changes), "changes": changes, "diff": sides}


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "kubeconfig": {"type": "path", "required": True},
        "nodes": {"type": "list", "elements": "dict", "required": True, "options": _NODE},
    },
    "supports_check_mode": True,
}
