# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings in Docker's daemon.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._command import Runner
from .._docker.daemon import DAEMON_FILE, DaemonFile
from .._systemd import RUN_DIR, Restarts, Systemd


def ensure(module: Any) -> dict[str, Any]:
    params = module.params
    restarts = Restarts(Systemd(Runner(module, timeout=60)), Path(params["run_dir"]))
    options = (params["service"] or "", params["programs"], params["record"] or "")
    file = DaemonFile(module, params["root"], params["path"], restarts, *options)
    return file.ensure(params["settings"], params["replace"], params["log_options"], params["cdi"])


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "settings": {"type": "dict", "required": True},
        "log_options": {"type": "dict", "default": {}},
        "cdi": {"type": "bool", "default": False},
        "path": {"type": "path", "default": DAEMON_FILE},
        "replace": {"type": "bool", "default": False},
        "service": {"type": "str"},
        "programs": {"type": "list", "elements": "path", "default": []},
        "record": {"type": "path"},
        "run_dir": {"type": "path", "default": RUN_DIR},
        "root": {"type": "path", "default": "/"},
    },
    "supports_check_mode": True,
}
