# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read records about NVIDIA devices from journalctl's JSON or dmesg's text. Pure functions; any text is accepted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

# Text of a record, possibly of several lines, and its time in seconds or None.
Record = tuple[str, "float | None"]
# The driver writes no longer records.
LONGEST = 2000
# Separators between the words of a message that spans several lines.
BROKEN = re.compile(r"(?:\s|NVRM:){1,99}")

_OURS = re.compile(r"NVRM|SXid|nvidia|nouveau|Nvlink", re.IGNORECASE)
# journalctl writes a message with control characters as a list of bytes.
_BINARY = re.compile(r'"MESSAGE"\s{0,9}:\s{0,9}\[')
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[,.](\d{1,6})([+-]\d\d:?\d\d|Z)\s")


def journal_records(text: str) -> Iterator[Record]:
    """Return the records in the output of ``journalctl --output=json``, one object per line.

    Only messages from the kernel count, or from root under the kernel's identifier (a daemon that forwards the kernel
    log): any user may write to the journal with that identifier.
    """
    return (record for record in map(_journal_line, text.split("\n")) if record)


def dmesg_records(text: str) -> Iterator[Record]:
    """Return dmesg's lines, with times if ``--time-format iso`` was used. Each line of a record is separate."""
    return ((line, _iso(line)) for line in text.split("\n"))


def _journal_line(line: str) -> Record | None:
    if not _OURS.search(line) and not _BINARY.search(line):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    of_root = entry.get("_UID") == "0" and entry.get("SYSLOG_IDENTIFIER") == "kernel"
    if entry.get("_TRANSPORT") != "kernel" and not of_root:
        return None
    return _message(entry.get("MESSAGE")), _microseconds(entry.get("__REALTIME_TIMESTAMP"))


def _message(value: Any) -> str:
    """Return a text, or decode bytes that journalctl considers binary; the first value if the field is repeated."""
    if isinstance(value, list) and value and all(isinstance(each, int) and 0 <= each < 256 for each in value):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, list) and value:
        return _message(value[0]) if not isinstance(value[0], list) else ""
    return value if isinstance(value, str) else ""


def _microseconds(value: Any) -> float | None:
    text = str(value)
    return int(text) / 1e6 if text.isascii() and text.isdigit() and len(text) < 17 else None


def _iso(line: str) -> float | None:
    match = _ISO.match(line)
    if not match:
        return None
    zone = "+0000" if match[3] == "Z" else match[3].replace(":", "")
    try:
        return datetime.strptime(f"{match[1]}.{match[2]}{zone}", "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
    except (ValueError, OverflowError):
        return None
