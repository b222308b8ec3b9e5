# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install packages in certain versions, and hold them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._apt.cli import Apt
from .._apt.fetch import PROXY_OPTIONS, use_proxies
from .._apt.packages import Directories, Packages
from .._apt.specs import PackageSpec, Policy, Release
from .._command import Runner
from .._first_run import FirstRun

_POLICY = ("hold", "allow_downgrade", "allow_change_held", "allow_removal")


def ensure(module: Any) -> dict[str, Any]:
    use_proxies(module.params)
    specs = [PackageSpec(**package) for package in module.params["packages"]]
    policy = Policy(**{name: module.params[name] for name in _POLICY})
    apt = Apt(Runner(module), module.params["lock_timeout"])
    follow = module.params["follow"]
    release = Release(follow["version"], tuple(follow["replaces"])) if follow else None
    directories = Directories(*(Path(module.params[name]) for name in ("dpkg_dir", "etc_dir", "lists_dir")))
    outcome = Packages(apt, policy, directories, FirstRun(module)).ensure(specs, module.check_mode, release)
    asked = {spec.name for spec in specs}
    for text in apt.notes():
        module.warn(text)
    return {
        "changed": outcome.changed,
        "diff": outcome.diff(),
        "installed": {name: version for name, version in outcome.after.items() if name in asked},
        "before": {name: version for name, version in outcome.before.items() if name in asked},
        "others": {name: outcome.after.get(name, "") for name in {*outcome.before, *outcome.after} - asked},
        "held": sorted(outcome.held),
        "missing": outcome.missing,
    }


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "packages": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "name": {"type": "str", "required": True},
                "version": {"type": "str", "default": ""},
                "optional": {"type": "bool", "default": False},
                "hold": {"type": "bool"},
            },
        },
        "follow": {
            "type": "dict",
            "options": {
                "version": {"type": "str", "required": True},
                "replaces": {"type": "list", "elements": "str", "required": True},
            },
        },
        "hold": {"type": "bool", "default": True},
        "allow_downgrade": {"type": "bool", "default": False},
        "allow_change_held": {"type": "bool", "default": True},
        "allow_removal": {"type": "bool", "default": False},
        "lock_timeout": {"type": "float", "default": 900},
        "dpkg_dir": {"type": "path", "default": "/var/lib/dpkg"},
        "etc_dir": {"type": "path", "default": "/etc/apt"},
        "lists_dir": {"type": "path", "default": "/var/lib/apt/lists"},
        **PROXY_OPTIONS,
    },
    "supports_check_mode": True,
}
