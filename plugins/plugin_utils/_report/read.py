# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse a report: required fields must be present; others are used if they have the expected type. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

Report = dict[str, Any]

_NEEDED = (("hosts", dict), ("totals", dict), ("problems", list))
_ADVICE = (
    "Use the JSON file that site.yml, verify.yml or report.yml wrote, or run one of these playbooks to create a new "
    "report."
)


class ReportError(AnsibleFilterError):  # type: ignore[misc]  # Ansible has no types.
    """A value is not a valid report; the message says what is wrong and what to do."""


def read_report(value: Any) -> Report:
    """Return a report, from JSON text or parsed, as plain dictionaries and lists. Raises ReportError."""
    if isinstance(value, (str, bytes)):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ReportError(f"Error while reading the report: it is not valid JSON: {error}. {_ADVICE}") from None
    found = _plain(value)
    if not isinstance(found, dict):
        raise ReportError(f"Error while reading the report: it is {_kind(found)} instead of a dictionary. {_ADVICE}")
    for key, kind in _NEEDED:
        if not isinstance(found.get(key), kind):
            what = f"its {key} is {_kind(found[key])}" if key in found else f"it has no {key}"
            raise ReportError(f"Error while reading the report: {what}, so this collection did not write it. {_ADVICE}")
    for name, entry in found["hosts"].items():
        if not isinstance(entry, dict):
            raise ReportError(
                f"Error while reading the report: the entry of host {name} is {_kind(entry)} instead of a dictionary. "
                f"{_ADVICE}"
            )
    return found


def read_seen(value: Any) -> dict[str, Any]:
    """Return a dictionary from Ansible without Ansible's own types."""
    found = _plain(value)
    if not isinstance(found, dict):
        raise ReportError(f"Error while completing the report: {_kind(found)} was given instead of a dictionary")
    return found


def text(value: Any) -> str:
    """Return a value as text, empty for null and for values that are not scalar."""
    return "" if value is None or isinstance(value, (dict, list, bool)) else str(value)


def number(value: Any) -> int | None:
    """Return a whole number, rounded down, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if abs(value) < 1e15 else None


def dictionary(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def dictionaries(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    return [word for word in map(text, value) if word] if isinstance(value, list) else []


def _plain(value: Any) -> Any:
    """Convert Ansible's own types, which are lazy. JSON has no types other than these."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)


def _kind(value: Any) -> str:
    kinds = {dict: "a dictionary", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return kinds.get(type(value), "a number")
