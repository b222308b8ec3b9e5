# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An apt source with its signing key."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from .._apt.cli import Apt
from .._apt.credentials import CREDENTIALS_OPTION, read_credentials
from .._apt.fetch import PROXY_OPTIONS, use_proxies
from .._apt.key import check_pins, date, read_pins
from .._apt.source import Wanted, apply, plan, remove, renew
from .._command import Runner
from .._first_run import FirstRun


def _wanted(params: dict[str, Any]) -> Wanted:
    return Wanted(
        name=params["name"],
        uris=params["uris"] or "",
        suites=tuple(params["suites"]),
        components=tuple(params["components"]),
        architectures=tuple(params["architectures"]),
        key_url=params["key_url"] or "",
        pins=read_pins(params["key_fingerprints"]),
        credentials=None if params["credentials"] is None else read_credentials(params["credentials"]),
        etc=Path(params["etc_dir"]),
        lists=Path(params["lists_dir"]),
    )


def ensure(module: Any) -> dict[str, Any]:
    wanted, now = _wanted(module.params), time.time()
    present = module.params["state"] == "present"
    if present:
        check_pins(wanted.key_url, wanted.label, wanted.pins)
    todo = plan(wanted, module.params["replace_conflicting"], now) if present else remove(wanted)
    use_proxies(module.params)
    if present and not wanted.pins and not wanted.key_url.startswith("file:"):
        todo.warnings.append(
            f"key_fingerprints of {wanted.label} is empty, so any key at {wanted.key_url} is accepted. Add the "
            "fingerprint that the repository's owner publishes."
        )
    if todo.key_ends:
        renew(wanted, todo, now)
    if todo.changed and not module.check_mode:
        apt = Apt(Runner(module), module.params["lock_timeout"])
        apply(wanted, todo, apt, now, FirstRun(module))
        todo.warnings += apt.notes()
    for text in todo.warnings:
        module.warn(text)
    return {
        "changed": todo.changed,
        "diff": todo.diffs(wanted),
        "path": str(wanted.path),
        "key_path": str(wanted.key_path),
        "key_fingerprints": list(todo.key.fingerprints) if todo.key else [],
        "key_expires": date(todo.key.expires) or None if todo.key else None,
        "refreshed": todo.refresh,
        "disabled": sorted(str(path) for path in todo.files if path not in wanted.modes),
    }


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "uris": {"type": "str", "aliases": ["uri"]},
        "suites": {"type": "list", "elements": "str", "default": ["/"]},
        "components": {"type": "list", "elements": "str", "default": []},
        "architectures": {"type": "list", "elements": "str", "default": ["amd64"]},
        "key_url": {"type": "str", "no_log": False},
        "key_fingerprints": {"type": "list", "elements": "str", "default": [], "no_log": False},
        "replace_conflicting": {"type": "bool", "default": False},
        "lock_timeout": {"type": "float", "default": 900},
        "etc_dir": {"type": "path", "default": "/etc/apt"},
        "lists_dir": {"type": "path", "default": "/var/lib/apt/lists"},
        **CREDENTIALS_OPTION,
        **PROXY_OPTIONS,
    },
    "required_if": [("state", "present", ("uris", "key_url"))],
    "supports_check_mode": True,
}
