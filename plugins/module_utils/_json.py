# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the JSON that programs print, with errors that name the program. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ._errors import DomainError


def read_json(text: str, what: str) -> Any:
    """The value of a text. Raises DomainError."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise DomainError(f"Error while reading {what}: it is not valid JSON ({error})") from None
    except RecursionError:
        raise DomainError(f"Error while reading {what}: it is nested too deeply") from None


def read_object(text: str, what: str) -> dict[str, Any]:
    """The object of a text. Raises DomainError."""
    return as_object(read_json(text, what), what)


def as_object(value: Any, what: str) -> dict[str, Any]:
    """A value that has to be an object. Raises DomainError."""
    if not isinstance(value, dict):
        raise DomainError(f"Error while reading {what}: it is not a JSON object")
    return value


def as_objects(value: Any, what: str) -> list[dict[str, Any]]:
    """A value that has to be a list of objects, empty for none. Raises DomainError."""
    if not isinstance(value or [], list):
        raise DomainError(f"Error while reading {what}: it is not a JSON list")
    return [as_object(each, f"an entry of {what}") for each in value or []]


def needed_text(value: dict[str, Any], name: str, what: str) -> str:
    """A text that an object has to have. Raises DomainError."""
    if not isinstance(value.get(name), str):
        raise DomainError(f"Error while reading {what}: {name} is missing or not a text")
    text: str = value[name]
    return text


def as_text(value: Any) -> str:
    """A text, empty for anything else."""
    return value if isinstance(value, str) else ""


def as_mapping(value: Any) -> Mapping[str, Any]:
    """A mapping, empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def as_mappings(value: Any) -> list[Mapping[str, Any]]:
    """The mappings of a list, none for anything else."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
