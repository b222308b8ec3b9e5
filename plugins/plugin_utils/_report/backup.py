# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups in the report: known fields of what the host has returned, and what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .read import dictionaries, number, text, texts

TAKE = "`ansible-playbook gpulab.kubernetes.backup -i INVENTORY`"
# In hours. A daily backup may be that old, and is delayed.
_OLD = 24
_LONGEST = 1000


def known(found: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the report, empty if the host has no backups."""
    if not found:
        return {}
    return {
        **{name: text(found.get(name))[:_LONGEST] for name in ("taken", "archive", "step", "error")},
        **{name: number(found.get(name)) or 0 for name in ("hours", "revision", "size")},
        "recipients": texts(found.get("recipients")),
        "places": [
            {name: text(each.get(name))[:_LONGEST] for name in ("place", "failure")}
            for each in dictionaries(found.get("places"))
        ],
    }


def problems(found: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the kind of each problem, what is wrong, and what to do."""
    error, hours = text(found.get("error")), number(found.get("hours")) or 0
    if error:
        step = text(found.get("step"))
        what = f"the last backup failed{f' ({step})' if step else ''}: {error}"
        yield "backup_failed", what, f"Fix the cause, then take a backup: {TAKE}."
    if found and hours > _OLD:
        taken = text(found.get("taken"))
        what = f"the last good backup is of {taken}" if taken else "there is no backup yet"
        yield (
            "backup_old",
            f"{what}, and none was taken for {hours} hours",
            f"On the host, check: `systemctl status gpulab-backup.timer`. Then take a backup: {TAKE}.",
        )
