# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disable swap, now and after a reboot."""

from __future__ import annotations

from typing import Any

from .._host.swap_off import SwapOff
from .._host.swap_origins import origins


def ensure(module: Any) -> dict[str, Any]:
    params = module.params
    outcome = SwapOff(module, params["fstab"], params["proc_swaps"], params["root"]).apply()
    left = [str(origin) for origin in origins(params["root"]) if origin.at_boot and not origin.kept_off]
    if left:
        module.warn(f"Swap will be turned on again at boot by {', '.join(left)}. Remove swapon from it.")
    return {
        "changed": outcome.changed,
        "diff": outcome.diff,
        "active_before": [area.facts() for area in outcome.active],
        "fstab_lines": outcome.fstab_facts(),
        "units": outcome.units,
        "configuration": outcome.configuration,
        "comes_back_by": left,
        "backup": outcome.backup,
    }


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "state": {"type": "str", "choices": ["absent"], "default": "absent"},
        "fstab": {"type": "path", "default": "/etc/fstab"},
        "proc_swaps": {"type": "path", "default": "/proc/swaps"},
        "root": {"type": "path", "default": "/"},
    },
    "supports_check_mode": True,
}
