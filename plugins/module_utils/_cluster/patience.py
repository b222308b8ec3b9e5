# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time to wait for an unreachable API: one budget for each outage."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

from ansible.module_utils.common.warnings import warn

# A restarting API server is available again within this time, in seconds.
LIMIT = 60.0
# The limit for a server that was already unreachable for the full time in this run.
_LIMIT_WHEN_DOWN = 3.0
_NOTICE = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 4.0
_DOWN = "down"


class Patience:
    """The waits of one client.

    ``record`` is the file in which the tasks of a run share that the API is down. It is used only if it exists.
    """

    def __init__(self, server: str, record: Path) -> None:
        self._server, self._record = server, record
        self._down = False
        with contextlib.suppress(OSError):
            self._down = record.read_text(encoding="utf-8") == _DOWN
        self._limit = _LIMIT_WHEN_DOWN if self._down else LIMIT
        self._away_since: float | None = None
        self._lost = 0.0
        self._pause, self._tried = _FIRST_PAUSE, 0.0
        self._lock = threading.Lock()
        self._noticed = False

    def clock(self) -> float:
        """Return seconds of a clock that stops during outages, when changes can't be observed."""
        return time.monotonic() - self._lost - min(self._away(), self._limit)

    def left(self) -> float:
        """Return the remaining seconds that the API may be unreachable."""
        return self._limit - self._away()

    def answered(self) -> None:
        """Record that the API has answered."""
        with self._lock:
            self._lost += min(self._away(), self._limit)
            self._away_since, self._pause, self._noticed = None, _FIRST_PAUSE, False
        self._limit = LIMIT
        self._note(down=False)

    def wait(self, began: float, asked: float, at_least: float = 0) -> bool:
        """Wait before the next attempt; return False if the outage is too long.

        ``began`` is the time of this request's first attempt, ``asked`` that of the failed attempt, ``at_least`` the
        delay in seconds that the API requested. Other threads may get answers meanwhile.
        """
        since = self._away_since
        self._away_since = since = asked if since is None else since
        now = time.monotonic()
        if now - since >= self._limit:
            self._note(down=True)
            return False
        left = self._limit - (now - min(began, since))
        if left <= 0:
            return False
        if now - since >= _NOTICE and not self._noticed:
            self._noticed = True
            warn(f"The API at {self._server} has not answered for {_NOTICE:g} s; waiting up to {self._limit:g} s.")
        with self._lock:
            pause = self._pause
            # Requests that fail together count as one attempt.
            if asked >= self._tried:
                self._pause, self._tried = min(_LONGEST_PAUSE, pause * 2), now
        time.sleep(min(left, max(pause, at_least)))
        return True

    def _away(self) -> float:
        # Another thread may reset it in between.
        since = self._away_since
        return 0 if since is None else time.monotonic() - since

    def _note(self, down: bool) -> None:
        if down != self._down:
            self._down = down
            with contextlib.suppress(OSError):
                if self._record.exists():
                    self._record.write_text(_DOWN if down else "", encoding="utf-8")
