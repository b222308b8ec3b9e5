# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules and sysctls, now and after a reboot."""

from __future__ import annotations

from typing import Any

from .._host.kernel_settings import KernelSettings


def ensure(module: Any) -> dict[str, Any]:
    options = dict(module.params)
    outcome = KernelSettings(module, options.pop("root")).apply(**options)
    for found in outcome.overridden:
        module.warn("{key} will be {value} again after a reboot: {file} sets it later".format(**found))
    for key, reason in outcome.not_raised.items():
        module.warn(f"{key} is lower than {options['minimums'][key]} and can't be raised: {reason}")
    return {
        "changed": outcome.changed,
        "diff": outcome.diff,
        "modules_loaded": outcome.loaded,
        "sysctls_set": outcome.set,
        "overridden": outcome.overridden,
    }


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "modules": {"type": "list", "elements": "str"},
        "sysctls": {"type": "dict"},
        "minimums": {"type": "dict", "default": {}},
        "modules_file": {"type": "path", "default": "/etc/modules-load.d/gpulab.conf"},
        "sysctl_file": {"type": "path", "default": "/etc/sysctl.d/95-gpulab.conf"},
        "recorded": {"type": "list", "elements": "str", "default": []},
        "root": {"type": "path", "default": "/"},
    },
    "supports_check_mode": True,
}
