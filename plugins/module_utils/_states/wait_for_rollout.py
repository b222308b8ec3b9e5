# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait for pods, nodes and GPUs."""

from __future__ import annotations

from typing import Any

from .._cluster.api import Api
from .._cluster.objects import GPU
from .._cluster.rollout import Wanted, acceptable
from .._cluster.rollout_wait import Waiter


def _amounts(wanted: Any) -> dict[str, int]:
    amounts = wanted if isinstance(wanted, dict) else {GPU: wanted}
    return {name: int(amount) for name, amount in amounts.items()}


def ensure(module: Any) -> dict[str, Any]:
    params = module.params
    wanted = Wanted(
        cluster_policy=params["cluster_policy"],
        daemonsets=tuple(params["daemonsets"]),
        deployments=tuple(params["deployments"]),
        nodes=tuple(params["nodes"]),
        nodes_ready=params["nodes_ready"],
        allocatable={node: _amounts(wanted) for node, wanted in params["allocatable"].items()},
        tolerate_unhealthy=params["tolerate_unhealthy"],
    )
    waiter = Waiter(Api(params["kubeconfig"]), params["namespace"], wanted)
    found = waiter.look() if module.check_mode else waiter.wait(params["timeout"], params["settle"])
    if found and acceptable(wanted, found):
        module.warn(waiter.explain(found))
    return {"missing": [entry.fields() for entry in found]}


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "kubeconfig": {"type": "path", "required": True},
        "namespace": {"type": "str", "required": True},
        "daemonsets": {"type": "list", "elements": "str", "default": []},
        "deployments": {"type": "list", "elements": "str", "default": []},
        "cluster_policy": {"type": "str", "default": ""},
        "nodes": {"type": "list", "elements": "str", "default": []},
        "nodes_ready": {"type": "bool", "default": False},
        "allocatable": {"type": "dict", "default": {}},
        "tolerate_unhealthy": {"type": "bool", "default": False},
        "settle": {"type": "float", "default": 0},
        "timeout": {"type": "float", "default": 300},
    },
    "supports_check_mode": True,
}
