# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse ``kubeadm token list``: JSON since 1.17, a table in all versions.

Source: kubernetes cmd/kubeadm/app/cmd/token.go and its history.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .text import Columns, columns, instant, is_remark, json_objects, plain, unreadable

JOIN_GROUP = "system:bootstrappers:kubeadm:default-node-token"

_WHAT = "bootstrap tokens"
_TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_HEADER = re.compile(r"\s*TOKEN\s{2,}TTL\s{2,}EXPIRES\s{2,}USAGES\s{2,}DESCRIPTION(?:\s{2,}EXTRA GROUPS)?\s*")
_NONE = "<none>"


@dataclass(frozen=True)
class Token:
    """A bootstrap token. ``expires`` (UTC) is None if it never expires."""

    token: str
    expires: datetime | None
    usages: tuple[str, ...]
    groups: tuple[str, ...]
    description: str | None

    @property
    def id(self) -> str:
        """Return the public part of the token."""
        return self.token.partition(".")[0]

    def lets_join(self, now: datetime, life: timedelta = timedelta(0)) -> bool:
        """Return whether a worker can join with the token now and until ``life`` has passed."""
        return (
            {"authentication", "signing"} <= set(self.usages)
            and JOIN_GROUP in self.groups
            and (self.expires is None or (self.expires > now and self.expires - now >= life))
        )


def list_tokens(kubeconfig: str) -> list[list[str]]:
    """Return the commands to try in order; older versions of kubeadm do not know the first one."""
    options = ["--kubeconfig", kubeconfig]
    return [["token", "list", "-o", "json", *options], ["token", "list", *options]]


def is_token(text: str) -> bool:
    """Return whether the text is a complete bootstrap token."""
    return bool(_TOKEN.fullmatch(text))


def tokens(text: str) -> list[Token]:
    """Parse the output of ``kubeadm token list``, with ``-o json`` (a stream of objects) or without.

    Empty output is an empty list. Raise KubeadmTextError.
    """
    text = plain(text)
    lines = text.split("\n")
    header = next((number for number, line in enumerate(lines) if _HEADER.fullmatch(line)), None)
    if header is not None:
        known = columns(lines[header])
        return [_row(known, line) for line in lines[header + 1 :] if not is_remark(line)]
    try:
        found = [_token(data) for data in json_objects(text)]
    except ValueError as error:
        raise unreadable(_WHAT, str(error)) from error
    wrong = None if found else next((line for line in lines if not is_remark(line)), None)
    if wrong is not None:
        raise unreadable(_WHAT, "there is neither JSON nor a table, but", wrong)
    return found


def _token(data: dict[str, Any]) -> Token:
    value = data.get("token")
    if not isinstance(value, str) or not is_token(value):
        raise ValueError("an object holds no token")
    expires, description = data.get("expires"), data.get("description")
    return Token(
        token=value,
        expires=instant(expires) if expires is not None else None,
        usages=_strings(data.get("usages")),
        groups=_strings(data.get("groups")),
        description=description if isinstance(description, str) and description else None,
    )


def _row(known: Columns, line: str) -> Token:
    cells = known.cells(line)
    if cells is None or not is_token(cells["TOKEN"]):
        raise unreadable(_WHAT, "a row holds no token", line)
    try:
        expires = None if cells["EXPIRES"] == "<never>" else instant(cells["EXPIRES"])
    except ValueError as error:
        raise unreadable(_WHAT, str(error), line) from error
    return Token(
        token=cells["TOKEN"],
        expires=expires,
        usages=_list(cells["USAGES"]),
        groups=_list(cells.get("EXTRA GROUPS", _NONE)),
        description=cells["DESCRIPTION"] if cells["DESCRIPTION"] not in (_NONE, "") else None,
    )


def _list(cell: str) -> tuple[str, ...]:
    return tuple(cell.split(",")) if cell not in (_NONE, "") else ()


def _strings(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("an object holds no list of names where one belongs")
    return tuple(value)
