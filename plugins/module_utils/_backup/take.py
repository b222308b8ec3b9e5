# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the service that takes a backup, and read what it has done."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from .._command import Runner
from .._errors import DomainError
from .._files import read_text, under
from .._systemd import Systemd
from .._words import moment
from .state import STATE, UNIT, Good, State, read_state

_DOING = "Error while backing up the cluster"
_NOTHING = Good(taken="", archive="", revision=0, keys=0, size=0)


def take(module: Any) -> dict[str, Any]:
    """Take a backup and describe it. Raise DomainError with its error; check mode does nothing."""
    good = _NOTHING if module.check_mode else _take(module)
    fields = asdict(good)
    # Jinja can't read a value that is named like a method of dictionaries.
    count = fields.pop("keys")
    return {**fields, "key_count": count, "recipients": list(good.recipients), "places": list(good.places)}


def _take(module: Any) -> Good:
    systemd = Systemd(Runner(module, timeout=module.params["timeout"]))
    begun = int(time.time())
    if systemd.unit(UNIT).stale:
        systemd.do("daemon-reload")
    # The first start may find a backup that began earlier, and wait for it.
    for _attempt in range(2):
        good = _start(systemd, module.params["root"], begun)
        if (moment(good.taken) or 0) >= begun:
            return good
    raise DomainError(f"{_DOING}: {UNIT} has ended without a new backup. Check: journalctl --unit {UNIT}")


def _start(systemd: Systemd, root: str, begun: int) -> Good:
    try:
        systemd.do("start", UNIT)
    except DomainError:
        failed = _state(root).attempt
        # The journal has the same message, after those of earlier backups.
        if failed and failed.error and (moment(failed.time) or 0) >= begun:
            raise DomainError(f"{_DOING} ({failed.step}): {failed.error}") from None
        raise
    state = _state(root)
    if not state.attempt or (moment(state.attempt.time) or 0) < begun:
        raise DomainError(f"{_DOING}: the service did nothing, because this host has no etcd that kubeadm set up.")
    return state.good or _NOTHING


def _state(root: str) -> State:
    return read_state(read_text(under(root, STATE)) or "{}")
