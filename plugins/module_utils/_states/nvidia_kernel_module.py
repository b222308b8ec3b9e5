# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load NVIDIA's kernel modules in a certain version, or unload them."""

from __future__ import annotations

import time
from typing import Any

from .._command import Runner
from .._nvidia.kernel_module import Driver
from .._words import written


def ensure(module: Any) -> dict[str, Any]:
    loaded = module.params["state"] == "loaded"
    version = module.params["version"] if loaded else ""
    blacklist, further = module.params["blacklist"] or "", module.params["further"]
    began = written(time.time())
    driver = Driver(Runner(module, timeout=600), module.params["root"], module.check_mode)
    outcome = driver.ensure(version, blacklist, further, module.params["modules"]) if loaded else driver.remove()
    for warning in outcome.warnings:
        module.warn(warning)
    return {
        "changed": outcome.changed,
        "began": began,
        "modules": outcome.modules,
        "loaded_before": outcome.loaded_before,
        "loaded_version": outcome.loaded_version,
        "reboot_required": outcome.reboot_required,
        "reason": outcome.reason,
        "diff": {
            "before_header": "loaded NVIDIA driver",
            "after_header": "loaded NVIDIA driver",
            "before": f"{outcome.loaded_before or 'none'}\n",
            "after": f"{version or 'none'}\n",
        },
    }


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "version": {"type": "str"},
        "state": {"type": "str", "choices": ["loaded", "absent"], "default": "loaded"},
        "blacklist": {"type": "path", "default": ""},
        "further": {"type": "list", "elements": "str", "default": []},
        "modules": {"type": "str", "choices": ["", "open", "proprietary"], "default": ""},
        "root": {"type": "path", "default": "/"},
    },
    "required_if": [("state", "loaded", ["version"])],
    "supports_check_mode": True,
}
