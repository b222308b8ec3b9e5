# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files with given content, and the services to restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._command import Runner
from .._first_run import FirstRun
from .._host.managed_files import ManagedFiles, Prune, Wanted
from .._systemd import RUN_DIR, Restarts, Systemd


def ensure(module: Any) -> dict[str, Any]:
    params = module.params
    restarts = Restarts(Systemd(Runner(module, timeout=60)), Path(params["run_dir"]))
    first_run = FirstRun(module, params["root"])
    files = ManagedFiles(params["root"], params["marker"], restarts, first_run, module.check_mode)
    outcome = files.ensure(
        [Wanted.from_params(entry) for entry in params["files"]],
        [Prune(entry["directory"], entry["pattern"], entry["age"]) for entry in params["prune"]],
    )
    return {
        "changed": bool(outcome.changed),
        "diff": outcome.diff,
        "files": outcome.changed,
        "kept": outcome.kept,
        "services": outcome.services,
    }


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "files": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "path": {"type": "path", "required": True},
                "content": {"type": "str", "default": ""},
                "secret_content": {"type": "str", "default": "", "no_log": True},
                "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
                "mode": {"type": "str", "default": "0644"},
                "service": {"type": "str"},
                "reload": {"type": "bool", "default": False},
                "keep_foreign": {"type": "bool", "default": True},
                "keep_replaced": {"type": "bool", "default": False},
            },
        },
        "prune": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "directory": {"type": "path", "required": True},
                "pattern": {"type": "str", "required": True},
                "age": {"type": "int", "default": 0},
            },
        },
        "marker": {"type": "str", "default": "Managed by gpulab.kubernetes"},
        "run_dir": {"type": "path", "default": RUN_DIR},
        "root": {"type": "path", "default": "/"},
    },
    "supports_check_mode": True,
}
