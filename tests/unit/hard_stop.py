# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A limit in time for what must not hang."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class HungError(AssertionError):
    """It was still at work when its time was over."""


@contextmanager
def hard_stop(seconds: float = 60) -> Iterator[None]:
    """Raise HungError in what runs inside of this for longer."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise HungError(f"still at work after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
