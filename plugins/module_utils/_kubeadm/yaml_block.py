# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the part of YAML that Kubernetes' programs write, on hosts without PyYAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

_KEY = re.compile(r"""(?P<key>"[^"]*"|'[^']*'|[^\s"'#:][^:#]*):(?:[ \t]+(?P<value>.*))?$""")
_COMMENT = re.compile(r"\s#")


def read_yaml(text: str) -> Any:
    """Nested maps and lists in block style whose scalars are strings (numbers and booleans too) or None.

    Raises ValueError for anything else, RecursionError for what is nested too deeply.
    """
    return _Block(text).document()


class _Block:
    """The part of YAML that kubeconfig files are written in: nested maps and lists in block style, plain scalars."""

    def __init__(self, text: str) -> None:
        found = list(self._content(text.splitlines()))
        self._lines = [(indent, content) for _number, indent, content in found]
        self._numbers = [number for number, _indent, _content in found]
        self._position = 0

    @staticmethod
    def _content(lines: Iterable[str]) -> Iterable[tuple[int, int, str]]:
        for number, line in enumerate(lines, 1):
            content = line.strip()
            if content and not content.startswith("#") and content not in ("---", "..."):
                yield number, len(line) - len(line.lstrip(" ")), content

    def _wrong(self, position: int) -> ValueError:
        # Without its text, which may be a secret.
        return ValueError(f"can't make sense of line {self._numbers[position]}")

    def document(self) -> Any:
        value = self._value(0)
        if self._position != len(self._lines):
            raise self._wrong(self._position)
        return value

    def _peek(self) -> tuple[int, str]:
        return self._lines[self._position] if self._position < len(self._lines) else (-1, "")

    def _value(self, least: int) -> Any:
        indent, content = self._peek()
        if indent < least:
            return None
        return self._list(indent) if self._is_item(content) else self._map(indent)

    @staticmethod
    def _is_item(content: str) -> bool:
        return content == "-" or content.startswith("- ")

    def _list(self, indent: int) -> list[Any]:
        found = []
        while self._peek()[0] == indent and self._is_item(self._peek()[1]):
            rest = self._peek()[1][1:].strip()
            if not rest:
                self._position += 1
                found.append(self._value(indent + 1))
            elif _KEY.match(rest):
                # "- key: value" begins a map that goes on in the lines below, two columns further in.
                inner = indent + len(self._peek()[1]) - len(rest)
                self._lines[self._position] = (inner, rest)
                found.append(self._map(inner))
            else:
                self._position += 1
                found.append(self._scalar(rest))
        return found

    def _map(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._peek()[0] == indent:
            match = _KEY.match(self._peek()[1])
            if not match or self._is_item(self._peek()[1]):
                raise self._wrong(self._position)
            self._position += 1
            key = self._scalar(match["key"])
            if not isinstance(key, str):
                raise self._wrong(self._position - 1)
            value = (match["value"] or "").strip()
            if value and not value.startswith("#"):
                found[key] = self._scalar(value)
            else:
                # A list may stand at the same depth as the key it belongs to.
                found[key] = self._value(indent + (not self._is_item(self._peek()[1])))
        return found

    def _scalar(self, text: str) -> Any:
        """The value of a text on the line before the position."""
        if text[0] == '"':
            return json.loads(text) if text.endswith('"') else json.loads(text.partition(" #")[0])
        if text[0] == "'":
            return text.partition(" #")[0].rstrip().strip("'").replace("''", "'")
        plain = _COMMENT.split(text, maxsplit=1)[0].rstrip()
        if plain[:1] in "|>&*!%@`{[" and plain not in ("{}", "[]"):
            raise self._wrong(self._position - 1)
        return {"{}": {}, "[]": [], "null": None, "~": None, "": None}.get(plain, plain)
