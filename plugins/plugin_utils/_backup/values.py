# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with values of the role backup, as the end of a sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ...module_utils._secrets import mask

# An X25519 key of age, or a public key of SSH.
_RECIPIENT = re.compile(r"age1[0-9a-z]{10,200}|ssh-(?:rsa|ed25519) [A-Za-z0-9+/=]{20,4000}(?: \S.*)?", re.ASCII)
_WORD = r"(?i:(?:minute|hour|dai|week|month|quarter|semiannual|annual|year)ly|(?:mon|tue|wed|thu|fri|sat|sun)[a-z.,]*)"
# Dates and times have a digit or an asterisk, and may have a time zone.
_SCHEDULE = re.compile(rf"{_WORD}|(?=.*[0-9*])[A-Za-z0-9*.,:/~_+ -]+", re.ASCII)
_PLACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*:[^\x00-\x1f]*|/[^\x00-\x1f]+", re.ASCII)


def recipient_problems(recipients: Iterable[Any]) -> Iterator[str]:
    for number, each in enumerate(recipients, 1):
        if not _RECIPIENT.fullmatch(str(each)):
            # The text may be an identity, which is secret.
            yield f"entry {number} must be a public key, age1... or that of an SSH key, and not the identity"


def place_problems(places: Iterable[Any]) -> Iterator[str]:
    for each in places:
        # The account of a remote is in its configuration; a URL with a password would be shown with the backup.
        if not _PLACE.fullmatch(str(each)) or "://" in str(each):
            yield f"{mask(str(each))!r:.120} must be REMOTE:PATH, as rclone writes it, or an absolute path"


def schedule_problems(schedule: Any) -> Iterator[str]:
    """Yield what is wrong with a schedule. systemd ignores one that it can't parse, and the timer never elapses."""
    if not _SCHEDULE.fullmatch(str(schedule)):
        yield (
            "it must be a calendar event as systemd writes it, such as hourly or *-*-* 03:00, not "
            f"{mask(str(schedule))!r:.120} (systemd-analyze calendar checks one)"
        )


def positive(value: Any) -> Iterator[str]:
    if float(value) <= 0:
        yield f"it must be more than 0, not {value}"
