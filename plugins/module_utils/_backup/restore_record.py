# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a restore: which archive, and the last step that is done."""

from __future__ import annotations

import json
import re
from typing import Any

from .._errors import DomainError
from .._files import text_or_nothing
from .._json import as_mapping, as_text

RECORD = "/var/lib/gpulab/restore.json"
DONE = "done"
_PLACE = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f]+)+/?")


def read_record(text: str | None) -> dict[str, Any]:
    """Return the record of a restore, empty if there is none. Raise DomainError for a damaged one."""
    if text is None:
        return {}
    try:
        found = as_mapping(json.loads(text))
    except (ValueError, RecursionError):
        found = {}
    aside = found.get("aside")
    places = [as_text(each) for each in aside] if isinstance(aside, list) else [""]
    texts = all(isinstance(found.get(key), str) for key in ("archive", "cluster", "step"))
    valid = found.get("schema") == 1 and texts and isinstance(found.get("kubelet"), bool)
    if not valid or not all(_PLACE.fullmatch(each) for each in places):
        raise DomainError(
            f"Error while reading {RECORD}, the record of a restore: it is damaged. What the host had before a restore "
            "that was interrupted is in /var/lib/gpulab/aside-*. Remove the record, and run again."
        )
    return {key: found[key] for key in ("archive", "cluster", "aside", "kubelet", "step")}


def is_interrupted(root: str) -> bool:
    """Return whether a restore has begun on a host and is not done; also if its record is damaged."""
    try:
        found = read_record(text_or_nothing(root, RECORD) or None)
    except DomainError:
        return True
    return bool(found) and found["step"] != DONE
