# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common loop for waiting for a state of the API; callers provide what to read and when to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from .watching import Watch

Found = TypeVar("Found")

# The time that a pod may have a problem that is likely to persist, in seconds.
STUCK = 60.0
_FIRST_PAUSE, _USUAL_PAUSE, _LONGEST_PAUSE = 0.1, 1.0, 5.0
# After minutes of waiting, a few seconds do not matter to the user, but fewer requests help the API server.
_PART_OF_WAIT = 1 / 20


class StuckFor:
    """Detects that one of several things has been in a state for ``limit`` seconds without a break.

    ``since`` is the time at which each entered the state, for a caller that continues in another process.
    """

    def __init__(self, limit: float = STUCK, since: Mapping[str, float] | None = None) -> None:
        self._limit = limit
        self.since = dict(since or {})

    def exceeded(self, things: Iterable[str], now: float, longer: Mapping[str, float] | None = None) -> bool:
        """Return whether the limit is exceeded. ``things`` are all that are in the state now; others are reset.

        ``longer`` contains longer limits for some of them.
        """
        self.since = {thing: self.since.get(thing, now) for thing in things}
        limits = longer or {}
        return any(now - since >= max(self._limit, limits.get(thing, 0)) for thing, since in self.since.items())


def until(
    look: Callable[[], Found],
    done: Callable[[Found], bool],
    timeout: float,
    clock: Callable[[], float] = time.monotonic,
    pause: float = _FIRST_PAUSE,
    watch: Watch | None = None,
) -> Found:
    """Return the last result of ``look``, when ``done`` accepts it or after ``timeout`` seconds of ``clock``.

    A timeout of 0 does not wait. ``pause`` is the delay after the first look, in seconds; it grows. A change in
    ``watch`` ends a longer pause early. If ``watch`` has had no news recently, its lists are read again before the
    result counts.
    """
    began, longest = clock(), max(pause, _USUAL_PAUSE)
    deadline = began + timeout
    while True:
        found = look()
        if done(found) or clock() >= deadline:
            if watch is None or watch.heard_within(_LONGEST_PAUSE):
                return found
            watch.outdated()
            found = look()
            if done(found) or clock() >= deadline:
                return found
        whole = min(_LONGEST_PAUSE, max(pause, (clock() - began) * _PART_OF_WAIT))
        time.sleep(min(pause, whole) if watch else whole)
        if watch:
            watch.wait(max(0.0, whole - pause))
        pause = min(longest, pause * 2)


def until_gone(look: Callable[[], Found], timeout: float, watch: Watch | None = None) -> Found:
    """Wait until ``look`` returns nothing, and return its last result, at the latest after ``timeout`` seconds."""
    return until(look, lambda found: not found, timeout, watch=watch)
