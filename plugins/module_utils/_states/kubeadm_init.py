# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Initialize a control plane once."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .._kubeadm.init import KubeadmInit


def ensure(module: Any) -> dict[str, Any]:
    params = module.params
    init = KubeadmInit(
        module,
        params["executable"],
        params["timeout"],
        params["api_timeout"],
        params["root"],
        params["cleanup_timeout"],
    )
    outcome = init.apply(params["config"], params["ignore_preflight_errors"])
    return asdict(outcome)


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "config": {"type": "str", "required": True, "no_log": True},
        "ignore_preflight_errors": {"type": "list", "elements": "str", "default": []},
        "timeout": {"type": "int", "default": 900},
        "api_timeout": {"type": "int", "default": 60},
        "cleanup_timeout": {"type": "int", "default": 60},
        "executable": {"type": "str", "default": "kubeadm"},
        "root": {"type": "path", "default": "/"},
    },
    "supports_check_mode": True,
}
