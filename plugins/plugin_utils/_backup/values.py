# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with values of the role backup, as the end of a sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

# An X25519 key of age, or a public key of SSH.
_RECIPIENT = re.compile(r"age1[0-9a-z]{10,200}|ssh-(?:rsa|ed25519) [A-Za-z0-9+/=]{20,4000}(?: \S.*)?", re.ASCII)
_PLACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*:[^\x00-\x1f]*|/[^\x00-\x1f]+", re.ASCII)


def recipient_problems(recipients: Iterable[Any]) -> Iterator[str]:
    for number, each in enumerate(recipients, 1):
        if not _RECIPIENT.fullmatch(str(each)):
            # The text may be an identity, which is secret.
            yield f"entry {number} must be a public key, age1... or that of an SSH key, and not the identity"


def place_problems(places: Iterable[Any]) -> Iterator[str]:
    for each in places:
        if not _PLACE.fullmatch(str(each)):
            yield f"{str(each)!r:.120} must be REMOTE:PATH, as rclone writes it, or an absolute path"


def positive(value: Any) -> Iterator[str]:
    if float(value) <= 0:
        yield f"it must be more than 0, not {value}"
