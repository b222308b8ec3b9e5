# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Partition GPUs into MIG devices as declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._command import CommandError, Runner
from .._files import put_file
from .._mig.geometry import Geometry, described, foreign, wishes
from .._nvidia.root import nvidia_smi


def ensure(module: Any) -> dict[str, Any]:
    program, environ = nvidia_smi(module.params["driver_root"])
    geometry = Geometry(Runner(module, timeout=module.params["timeout"], environ=environ), program)
    try:
        state = geometry.read()
    except CommandError:
        cut = bool(module.params["layout"])
        if module.check_mode or not cut:
            return {"changed": cut, "differs": cut, "gpus": [], "before": []}
        raise
    wanted = wishes(state, module.params["layout"])
    changed = any(not wish.fulfilled(state) for wish in wanted)
    owner = module.params["owner_file"]
    ours = bool(owner) and Path(owner).exists()
    if changed and not (module.params["owned"] or ours):
        foreign(state)
    if changed and not module.check_mode:
        geometry.apply(wanted)
    # This comes last, because the file tells a later run that these instances are managed.
    disowned = ours and not any(wish.profiles for wish in wanted)
    if disowned and not module.check_mode:
        put_file(Path(owner), None)
    return {
        "changed": changed or disowned,
        "differs": changed or disowned,
        "gpus": [
            {
                "index": wish.gpu.index,
                "uuid": wish.gpu.uuid,
                "name": wish.gpu.name,
                "profiles": wish.profiles,
                "create": wish.create,
            }
            for wish in wanted
        ],
        "before": [[instance.profile for instance in state.instances_of(gpu.index)] for gpu in state.gpus],
        "diff": {
            "before_header": "MIG devices of the GPUs",
            "after_header": "MIG devices of the GPUs",
            "before": described((gpu, [part.profile for part in state.instances_of(gpu.index)]) for gpu in state.gpus),
            "after": described((wish.gpu, wish.profiles) for wish in wanted),
        },
    }


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "layout": {"type": "raw"},
        "owned": {"type": "bool", "default": True},
        "owner_file": {"type": "path"},
        "driver_root": {"type": "path", "default": "/"},
        "timeout": {"type": "int", "default": 120},
    },
    "supports_check_mode": True,
}
