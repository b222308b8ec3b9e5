# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read how the backups of this host are."""

from __future__ import annotations

import time
from typing import Any

from .._errors import DomainError
from .._files import printable, text_or_nothing, under
from .._words import moment
from .state import SETTINGS, STATE, State, read_state


def backup_info(root: str) -> dict[str, Any]:
    """Return the newest good backup, its age in ``hours``, and the error of the last attempt; empty without backups.

    Before the first backup, the age is that of the settings.
    """
    settings = under(root, SETTINGS)
    if not settings.is_file():
        return {}
    try:
        state, error = read_state(text_or_nothing(root, STATE) or "{}"), ""
    except DomainError as found:
        state, error = State(), str(found)
    good, attempt = state.good, state.attempt
    since = (moment(good.taken) if good else None) or settings.stat().st_mtime
    return {
        "hours": max(int((time.time() - since) // 3600), 0),
        "taken": good.taken if good else "",
        "archive": good.archive if good else "",
        "revision": good.revision if good else 0,
        "size": good.size if good else 0,
        "recipients": list(good.recipients) if good else [],
        "places": [{"place": place, "failure": printable(why)} for place, why in good.places.items()] if good else [],
        "step": attempt.step if attempt else "",
        "error": printable(error or (attempt.error if attempt else "")),
    }
