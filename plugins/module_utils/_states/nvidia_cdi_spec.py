# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CDI specification that lists every GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._command import Runner
from .._first_run import FirstRun
from .._nvidia.cdi import CdiSpec, Expected


def ensure(module: Any) -> dict[str, Any]:
    params = module.params
    expected = Expected(params["count"], tuple(params["uuids"]), params["driver_version"], params["mig_devices"])
    units = (params["unit"], params["path_unit"])
    runner = Runner(module, timeout=params["timeout"])
    spec = CdiSpec(runner, FirstRun(module), Path(params["path"]), params["kind"], units)
    outcome = spec.ensure(expected, params["timeout"], module.check_mode)
    return {"changed": outcome.changed, "devices": outcome.devices, "actions": outcome.actions}


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "count": {"type": "int", "required": True},
        "uuids": {"type": "list", "elements": "str", "default": []},
        "mig_devices": {"type": "int"},
        "driver_version": {"type": "str", "default": ""},
        "path": {"type": "path", "default": "/var/run/cdi/nvidia.yaml"},
        "kind": {"type": "str", "default": "nvidia.com/gpu"},
        "unit": {"type": "str", "default": "nvidia-cdi-refresh.service"},
        "path_unit": {"type": "str", "default": "nvidia-cdi-refresh.path"},
        "timeout": {"type": "float", "default": 120},
    },
    "supports_check_mode": True,
}
