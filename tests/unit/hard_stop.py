# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends what hangs, also inside of a regular expression."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class HangError(Exception):
    """Something ran past its time."""


@contextmanager
def hard_stop(seconds: float = 60) -> Iterator[None]:
    """Raise HangError in the code within when it has not ended after so many seconds."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise HangError(f"no end after {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
