# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse JSON from programs, with errors that name the program. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ._errors import DomainError
from ._words import moment

_LARGEST = 2**63


def read_json(text: str, what: str) -> Any:
    """Return the value of a JSON text. Raise DomainError."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise DomainError(f"Error while reading {what}: it is not valid JSON ({error})") from None
    except RecursionError:
        raise DomainError(f"Error while reading {what}: it is nested too deeply") from None


def read_object(text: str, what: str) -> dict[str, Any]:
    """Return the object of a JSON text. Raise DomainError."""
    return as_object(read_json(text, what), what)


def as_object(value: Any, what: str) -> dict[str, Any]:
    """Return the value if it is an object, else raise DomainError."""
    if not isinstance(value, dict):
        raise DomainError(f"Error while reading {what}: it is not a JSON object")
    return value


def as_objects(value: Any, what: str) -> list[dict[str, Any]]:
    """Return the value if it is a list of objects, an empty list for None. Raise DomainError otherwise."""
    if not isinstance(value or [], list):
        raise DomainError(f"Error while reading {what}: it is not a JSON list")
    return [as_object(each, f"an entry of {what}") for each in value or []]


def needed_text(value: dict[str, Any], name: str, what: str) -> str:
    """Return a required text of an object. Raise DomainError if it is missing."""
    if not isinstance(value.get(name), str):
        raise DomainError(f"Error while reading {what}: {name} is missing or not a text")
    text: str = value[name]
    return text


def needed_number(value: dict[str, Any], name: str, what: str, least: int = 1) -> int:
    """Return a required whole number of an object. Raise DomainError if it is missing, or less than ``least``."""
    number = value.get(name)
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number < _LARGEST:
        raise DomainError(f"Error while reading {what}: {name} is missing or not a valid number")
    return number


def needed_time(value: dict[str, Any], name: str, what: str) -> str:
    """Return a required time of an object, which has the form of ``written``. Raise DomainError."""
    text = needed_text(value, name, what)
    if moment(text) is None:
        raise DomainError(f"Error while reading {what}: {name} is not a time: {text[:200]!r}")
    return text


def as_text(value: Any) -> str:
    """Return the value if it is a text, else an empty text."""
    return value if isinstance(value, str) else ""


def as_texts(value: Any) -> list[str]:
    """Return the texts in a list, an empty list for other values."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def as_mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list, an empty list for other values."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
