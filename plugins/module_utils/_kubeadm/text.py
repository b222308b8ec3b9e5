# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helpers for parsing kubeadm's output: plain text, masked secrets, JSON streams, tables, times."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from .._errors import DomainError
from .._secrets import MASK
from .._secrets import mask as mask_named

ENDPOINT = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<name>[A-Za-z0-9](?:[\w.-]*\w)?)):(?P<port>\d{1,5})", re.ASCII
)

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)|\ufeff")
_LINE_END = re.compile(r"\r+\n?")
_SECRETS = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}|(?<!sha256:)(?<![0-9a-fA-F])[0-9a-fA-F]{64,}")
_PIECES = re.compile(r"(?<=\.)[A-Za-z0-9]{8,}|(?=[A-Za-z]*[0-9])[A-Za-z0-9]{8,}|[a-z0-9]{16,}")
_LONG_PIECES = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{12,}")
_PUBLIC_WORD = re.compile(rf"(?:--[a-z-]+=?)?(?:sha256:[0-9A-Fa-f]*|(?P<endpoint>{ENDPOINT.pattern}))?", re.ASCII)
# Lines of klog, and of kubeadm's phases ("[check-expiration] Reading configuration from the cluster...").
_REMARK = re.compile(r"[IWEF]\d{4} \d\d:|\[[\w/-]+\] ")
_BLANKS = re.compile(r"\s*")
_NAME = re.compile(r"\S+(?: \S+)*")
_GAP = re.compile(r"\s{2,}|\t")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


class KubeadmTextError(DomainError):
    """Unreadable output of kubeadm; the message shows it with secrets masked."""


def unreadable(what: str, wrong: str, shown: str | None = None) -> KubeadmTextError:
    """Return a reader's error; ``shown`` is the offending line, in which secrets and parts of them are masked."""
    text = f"Error while reading the {what} of kubeadm: {wrong}"
    return KubeadmTextError(text if shown is None else f"{text}: {mask_pieces(shown)}")


def mask(text: str) -> str:
    """Return the text without secrets and certificate keys; CA hashes are public and stay."""
    return _SECRETS.sub(MASK, mask_named(text))


def mask_pieces(text: str) -> str:
    """Return at most 400 characters of damaged text, without possible parts of secrets."""
    return re.sub(r"\S+", _masked_word, mask(text[:2000]))[:400]


def plain(text: str) -> str:
    """Return the text with uniform line ends and without terminal colors."""
    return _LINE_END.sub("\n", _ANSI.sub("", text))


def json_objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a text, one after another.

    Text before the first object is skipped; between and after objects only log lines are accepted. Raise ValueError for
    anything else.
    """
    found: list[dict[str, Any]] = []
    decoder = json.JSONDecoder()
    position = 0
    while position < len(text):
        start = next(_BLANKS.finditer(text, position)).end()
        if text.startswith("{", start):
            try:
                data, position = decoder.raw_decode(text, start)
            except RecursionError as error:
                raise ValueError("it is nested too deeply") from error
            # etcd's client logs in JSON.
            found += [] if "level" in data and "kind" not in data else [data]
            continue
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if found and start < end and not is_remark(text[start:end]):
            raise ValueError(f"there is other text between or after JSON objects: {mask_pieces(text[start:end])!r}")
        position = end + 1
    return found


def is_remark(line: str) -> bool:
    """Return whether a line is empty or a progress message of kubeadm."""
    return not line.strip() or bool(_REMARK.match(line.lstrip()))


@dataclass(frozen=True)
class Columns:
    """Names of a table's columns and where they start, as printed by Go's tabwriter."""

    names: tuple[str, ...]
    starts: tuple[int, ...]

    def cells(self, row: str) -> dict[str, str] | None:
        """Return a row's cells by column; None if the row does not fit."""
        parts: Sequence[str] = _GAP.split(row.strip())
        if len(parts) != len(self.names):
            # A cell is empty or contains wide gaps.
            if any(row[start - 1 : start].strip() for start in self.starts[1:]):
                return None
            ends = [*self.starts[1:], len(row)]
            parts = [row[start:end].strip() for start, end in zip(self.starts, ends)]
        return dict(zip(self.names, parts))


def columns(header: str) -> Columns:
    """Return the columns named in a table's header."""
    matches = list(_NAME.finditer(header))
    return Columns(tuple(match[0] for match in matches), tuple(match.start() for match in matches))


def instant(value: Any) -> datetime:
    """Parse an RFC 3339 time as Go writes it; return UTC. Raise ValueError."""
    # In Python 3.9, fromisoformat accepts neither Z nor nanoseconds.
    match = _INSTANT.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise ValueError("it holds a time that is none")
    zone = "+00:00" if match[2] == "Z" else match[2]
    try:
        return datetime.fromisoformat(match[1] + zone).astimezone(timezone.utc)
    except OverflowError as error:
        raise ValueError("it holds a time that is none") from error


def timestamp(value: datetime | None) -> str | None:
    """Format a UTC time as the modules return it."""
    return value.strftime("%Y-%m-%dT%H:%M:%SZ") if value else None


def _masked_word(match: re.Match[str]) -> str:
    word = match[0].strip("\"'`,;()")
    public = _PUBLIC_WORD.fullmatch(word)
    if public and not (public["endpoint"] and _LONG_PIECES.search(public["endpoint"])):
        return match[0]
    return _PIECES.sub(MASK, match[0])
