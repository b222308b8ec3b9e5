# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the sharing of GPUs on nodes with the wanted one."""

from __future__ import annotations

from typing import Any

from .._cluster import sharing
from .._cluster.api import Api
from .._cluster.nodes import NODES


def compared(now: sharing.Node, wanted: dict[str, Any]) -> dict[str, Any]:
    before, after = sharing.resources(now, wanted["amounts"])
    return {
        "differs": now.configuration != wanted["configuration"] or now.changing,
        "drained": now.drained,
        "summary": f"{wanted['name']} {before} -> {after}" if before != after else "",
    }


def ensure(module: Any) -> dict[str, Any]:
    found = {node["metadata"]["name"]: sharing.read(node) for node in Api(module.params["kubeconfig"]).items(NODES)}
    nodes = {node["name"]: compared(found.get(node["name"], sharing.Node()), node) for node in module.params["nodes"]}
    return {"nodes": nodes}


_NODE = {
    "name": {"type": "str", "required": True},
    "configuration": {"type": "str", "required": True},
    "amounts": {"type": "dict", "required": True},
}
SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "kubeconfig": {"type": "path", "required": True},
        "nodes": {"type": "list", "elements": "dict", "required": True, "options": _NODE},
    },
    "supports_check_mode": True,
}
