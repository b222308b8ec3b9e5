# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one loop that waits for what the API shows. What to look at, and when it is enough, is the caller's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from .watching import Watch

Found = TypeVar("Found")

# How long a pod may have a problem that seldom ends by itself, in seconds.
STUCK = 60.0
_FIRST_PAUSE, _USUAL_PAUSE, _LONGEST_PAUSE = 0.1, 1.0, 5.0
# Who has waited for minutes does not mind some seconds, but the API server minds the requests.
_PART_OF_WAIT = 1 / 20


class StuckFor:
    """Whether one of several things has been in the same state for ``limit`` seconds without a break.

    ``since`` says when each of them got there, for a caller that continues in another process.
    """

    def __init__(self, limit: float = STUCK, since: Mapping[str, float] | None = None) -> None:
        self._limit = limit
        self.since = dict(since or {})

    def exceeded(self, things: Iterable[str], now: float, longer: Mapping[str, float] | None = None) -> bool:
        """``things`` are all that are in that state now; the others start from the beginning. ``longer`` has limits of
        some of them that count where they are longer."""
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
    """What the last look found, when ``done`` accepts it or ``timeout`` seconds of ``clock`` are over. 0 does not wait.

    ``pause`` is the time after the first look, in seconds; it grows. A change in ``watch`` ends a longer pause early.
    If ``watch`` has had no news recently, its lists are read again before the result counts.
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
    """What is still there: nothing, or what the last look found when ``timeout`` seconds are over."""
    return until(look, lambda found: not found, timeout, watch=watch)
