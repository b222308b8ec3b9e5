# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of a cluster from manifests."""

from __future__ import annotations

from typing import Any

from .._cluster.api import Api
from .._cluster.manifests import apply


def ensure(module: Any) -> dict[str, Any]:
    params = module.params
    changes = apply(Api(params["kubeconfig"]), params["definitions"], params["field_manager"], module.check_mode)
    sides = {
        side: {change.name: getattr(change, side) for change in changes if getattr(change, side)}
        for side in ("before", "after")
    }
    return {"changed": bool(changes), "changes": [change.name for change in changes], "diff": sides}


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "kubeconfig": {"type": "path", "required": True},
        "definitions": {"type": "list", "elements": "dict", "required": True},
        "field_manager": {"type": "str", "default": "gpulab.kubernetes"},
    },
    "supports_check_mode": True,
}
