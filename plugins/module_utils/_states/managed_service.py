# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a service, and restart it after its files have changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._command import Runner
from .._errors import DomainError
from .._first_run import FirstRun
from .._systemd import RUN_DIR, Restarts, Systemd, Unit, needed


def ensure(module: Any) -> dict[str, Any]:
    systemd = Systemd(Runner(module, timeout=300))
    restarts = Restarts(systemd, Path(module.params["run_dir"]))
    unit = systemd.unit(module.params["name"])
    if module.params["stop_if_new"]:
        return _stop_new(module, systemd, unit)
    if not unit.exists:
        if module.params["optional"] and not module.check_mode:
            return {"actions": [], "restart": False, "state": unit.load}
        if not module.check_mode:
            raise DomainError(
                f"Error while starting {unit.name}: this host has no such unit. Install the package that contains it."
            )
        changed = module.params["when_missing"] == "changed"
        return {"changed": changed, "actions": ["start"] if changed else [], "restart": False, "state": unit.load}
    if not unit.running and not module.params["start"]:
        return {"actions": [], "restart": False, "state": unit.active}
    verbs = needed(unit, restarts.pending(unit), module.params["enabled"], restarts.pending(unit, "reload"))
    if not module.check_mode:
        FirstRun(module).keep_unit(unit, verbs)
        for verb in verbs:
            systemd.do(verb, "" if verb == "daemon-reload" else unit.name)
        restarts.clear(unit)
    return {
        "changed": bool(verbs),
        "actions": verbs,
        "restart": "restart" in verbs,
        "state": unit.active,
        "diff": {
            "before_header": unit.name,
            "after_header": unit.name,
            "before": f"{unit.active}, {unit.file_state}\n",
            "after": "".join(f"{verb}\n" for verb in verbs) or f"{unit.active}, {unit.file_state}\n",
        },
    }


def _stop_new(module: Any, systemd: Systemd, unit: Unit) -> dict[str, Any]:
    """Stop and disable a unit that a package of this collection started, once: whoever starts it later uses it."""
    first_run = FirstRun(module)
    is_new = unit.exists and first_run.is_new_unit(unit.name, module.params["stop_if_new"])
    verbs = [*["stop"] * unit.running, *["disable"] * (unit.file_state == "enabled")] if is_new else []
    if is_new and not module.check_mode:
        for verb in verbs:
            systemd.do(verb, unit.name)
        first_run.keep_new_unit(unit.name)
    return {"changed": bool(verbs), "actions": verbs, "restart": False, "state": unit.active}


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "name": {"type": "str", "required": True},
        "enabled": {"type": "bool", "default": True},
        "start": {"type": "bool", "default": True},
        "when_missing": {"type": "str", "choices": ["unchanged", "changed"], "default": "unchanged"},
        "optional": {"type": "bool", "default": False},
        "stop_if_new": {"type": "str"},
        "run_dir": {"type": "path", "default": RUN_DIR},
    },
    "supports_check_mode": True,
}
