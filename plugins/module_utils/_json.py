# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the JSON that programs print, with errors that name the program. Pure."""

from __future__ import annotations

import json
from typing import Any

from ._errors import DomainError


def read_json(text: str, what: str) -> Any:
    """The value of a text. Raises DomainError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DomainError(f"Error while reading {what}: it is not valid JSON ({error})") from None


def read_object(text: str, what: str) -> dict[str, Any]:
    """The object of a text. Raises DomainError."""
    return as_object(read_json(text, what), what)


def as_object(value: Any, what: str) -> dict[str, Any]:
    """A value that has to be an object. Raises DomainError."""
    if not isinstance(value, dict):
        raise DomainError(f"Error while reading {what}: it is not a JSON object")
    return value


def as_text(value: Any) -> str:
    """A text, empty for anything else."""
    return value if isinstance(value, str) else ""
