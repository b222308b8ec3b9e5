# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Join a worker or a further control plane once."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .._kubeadm.join import KubeadmJoin, Wanted


def ensure(module: Any) -> dict[str, Any]:
    params = module.params
    endpoint = params["api_endpoint"] or {}
    wanted = Wanted(
        host=endpoint.get("host"),
        port=endpoint.get("port"),
        token=params["token"],
        ca_cert_hashes=tuple(params["ca_cert_hashes"]),
        config=params["config"],
        ignored=tuple(params["ignore_preflight_errors"]),
        node_name=params["node_name"],
        discovery=params["discovery"],
        control_plane=params["control_plane"],
        pki=params["pki"],
    )
    join = KubeadmJoin(module, params["executable"], params["timeout"], params["api_timeout"], params["root"])
    outcome = join.apply(wanted)
    facts = asdict(outcome)
    for warning in facts.pop("warnings"):
        module.warn(warning)
    return facts


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "api_endpoint": {"type": "dict", "options": {"host": {"type": "str"}, "port": {"type": "int"}}},
        "token": {"type": "str", "no_log": True},
        "ca_cert_hashes": {"type": "list", "elements": "str", "default": []},
        "config": {"type": "str", "no_log": True},
        "discovery": {"type": "str"},
        "control_plane": {"type": "bool", "default": False},
        "pki": {"type": "dict", "default": {}, "no_log": True},
        "ignore_preflight_errors": {"type": "list", "elements": "str", "default": []},
        "node_name": {"type": "str"},
        "timeout": {"type": "int", "default": 600},
        "api_timeout": {"type": "int", "default": 60},
        "executable": {"type": "str", "default": "kubeadm"},
        "root": {"type": "path", "default": "/"},
    },
    "supports_check_mode": True,
}
