# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the subset of YAML that is used in kubeconfigs, on hosts without PyYAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

_KEY = re.compile(r"""(?P<key>"[^"]*"|'[^']*'|[^\s"'#:{}\[\],&*!|>%@`][^:#]*):(?:[ \t]+(?P<value>.*))?$""")
_COMMENT = re.compile(r"\s#")
# Header of a block scalar, literal (|) or folded (>). With + all trailing newlines are kept, with - none.
_TEXT = re.compile(r"(?P<style>[|>])(?=[^+-]*(?P<end>[+-])?)(?:[1-9][+-]?|[+-][1-9]?)?(?:\s+#.*)?")
# A plain scalar in flow style.
_PLAIN = re.compile(r"(?![&*!|>%@`\"'?])(?:[^\s,\[\]{}:#]|:(?=[^\s,\[\]{}])|(?<=\S)#|[ \t]+(?=[^\s,\[\]{}:#]))+")
_QUOTED = {'"': re.compile(r'"(?:[^"\\]|\\.)*"'), "'": re.compile(r"'(?:[^']|'')*'")}
_OPENING, _CLOSING = ("{", "["), ("}", "]")
# A token in flow style.
_FLOW_PART = re.compile(
    rf"""\s+|(?P<plain>{_PLAIN.pattern})|{"|".join(pattern.pattern for pattern in _QUOTED.values())}|[\[\]{{}},:]"""
)
_CLOSED = {mark: re.compile(rf"(?P<text>{pattern.pattern})(?:\s+#.*)?") for mark, pattern in _QUOTED.items()}
_BLANK = re.compile(r"\s*")
_NOTHING = {"null": None, "~": None}
# A scalar, map or list that spans more lines is refused.
_MOST_LINES = 200


def read_yaml(text: str) -> Any:
    """Return nested maps and lists with scalars as strings (also numbers and booleans) or None.

    Anchors, tags and complex keys are not supported. Raise ValueError for unsupported text, RecursionError for deep
    nesting.
    """
    return _Block(text).document()


class _Block:
    """Parser of block style, including scalars of several lines and flow style."""

    def __init__(self, text: str) -> None:
        self._raw = text.splitlines()
        found = list(self._content(self._raw))
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
        # The text of the line may be a secret.
        return ValueError(f"can't make sense of line {self._numbers[position]}")

    def document(self) -> Any:
        if self._peek()[1][:1] in ("{", "["):
            self._position += 1
            value = self._flow(self._lines[0][1])
        else:
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
            elif self._is_item(rest) or _KEY.match(rest):
                # "- key: value" begins a map that continues on the next lines, two columns further in, and so does "- -
                # item".
                inner = indent + len(self._peek()[1]) - len(rest)
                self._lines[self._position] = (inner, rest)
                found.append(self._value(inner))
            else:
                self._position += 1
                found.append(self._scalar(rest, indent))
        return found

    def _map(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._peek()[0] == indent:
            match = _KEY.match(self._peek()[1])
            if not match or self._is_item(self._peek()[1]):
                raise self._wrong(self._position)
            self._position += 1
            key = self._key(match["key"])
            if not isinstance(key, str):
                raise self._wrong(self._position - 1)
            value = (match["value"] or "").strip()
            if value and not value.startswith("#"):
                found[key] = self._scalar(value, indent)
            else:
                # A list may have the same indentation as its key.
                found[key] = self._value(indent + (not self._is_item(self._peek()[1])))
        return found

    def _key(self, text: str) -> Any:
        return _unquoted(text) if text[0] in "\"'" else text

    def _scalar(self, text: str, indent: int) -> Any:
        """Return the value that starts on the previous line; it may continue on more deeply indented lines."""
        header = _TEXT.fullmatch(text)
        if header:
            return self._lines_below(header["style"], header["end"] or "", indent)
        if text[0] in "{[":
            return self._flow(text)
        if text[0] in "\"'":
            return self._quoted(text, indent)
        first, plain = self._position - 1, _COMMENT.split(text, maxsplit=1)[0].rstrip()
        if plain[:1] in "|>&*!%@`" or re.search(r":(?:\s|$)", plain):
            raise self._wrong(first)
        while plain == text and self._peek()[0] > indent and not _KEY.match(self._peek()[1]):
            text = self._extended(text, first)
            plain = _COMMENT.split(text, maxsplit=1)[0].rstrip()
        return _NOTHING.get(plain, plain)

    def _extended(self, text: str, first: int, between: bool = False) -> str:
        """Return the text, which starts on the line ``first``, joined with the next line.

        An empty line means a newline and is refused, unless it is ``between`` values.
        """
        if self._numbers[self._position] > self._numbers[first] + _MOST_LINES:
            raise self._wrong(self._position)
        if not between and self._numbers[self._position] > self._numbers[self._position - 1] + 1:
            raise self._wrong(self._position)
        self._position += 1
        return f"{text} {self._lines[self._position - 1][1]}"

    def _quoted(self, text: str, indent: int) -> str:
        first, closed = self._position - 1, _CLOSED[text[0]]
        while not (match := closed.fullmatch(text)):
            if self._peek()[0] <= indent:
                raise self._wrong(first)
            text = self._extended(text, first)
        return _unquoted(match["text"])

    def _lines_below(self, style: str, end_of_text: str, indent: int) -> str:
        """Return the text of the lines below, up to the first that is not indented more deeply."""
        found = []
        for line in self._raw[self._numbers[self._position - 1] :]:
            if line.strip() and len(line) - len(line.lstrip(" ")) <= indent:
                break
            found.append(line.strip())
        end = self._numbers[self._position - 1] + len(found)
        while self._position < len(self._lines) and self._numbers[self._position] <= end:
            self._position += 1
        text = ("\n" if style == "|" else " ").join(found).strip()
        empty = next((count for count, line in enumerate(reversed(found)) if line), len(found))
        newlines = {"-": 0, "+": empty + bool(text)}.get(end_of_text, bool(text))
        return text + "\n" * newlines

    def _flow(self, text: str) -> Any:
        first, brackets = self._position - 1, _Brackets()
        while brackets.are_open(text) and self._peek()[0] >= 0:
            text = self._extended(text, first, between=not brackets.in_quotes and text[-1] in ",[{")
        try:
            return _Flow(text).document()
        except (ValueError, EOFError):
            raise ValueError(
                f"can't make sense of line {self._numbers[first]}, which is in flow style ({{}} or []); kubectl config "
                "view --raw writes the usual form"
            ) from None


class _Brackets:
    """Tracks whether a text in flow style is complete; text that was already read is not read again."""

    def __init__(self) -> None:
        self.in_quotes = False
        self._position = self._depth = 0

    def are_open(self, text: str) -> bool:
        self.in_quotes = False
        while self._position < len(text):
            match = _FLOW_PART.match(text, self._position)
            if not match:
                self.in_quotes = text[self._position] in _QUOTED
                return self.in_quotes
            # A plain scalar may continue on the next line.
            if match["plain"] and match.end() == len(text):
                return True
            self._depth += (match[0] in _OPENING) - (match[0] in _CLOSING)
            self._position = match.end()
            if self._depth == 0:
                return False
        return True


class _Flow:
    """Parser of a map or list in flow style. Raises EOFError if its end is missing, ValueError for other errors."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def document(self) -> Any:
        value = self._value()
        rest = self._text[self._position :]
        if rest.strip() and not re.match(r"\s+#", rest):
            raise ValueError(rest[:1])
        return value

    def _next(self) -> str:
        self._position = _BLANK.match(self._text, self._position).end()  # type: ignore[union-attr]
        if self._position == len(self._text):
            raise EOFError
        return self._text[self._position]

    def _value(self) -> Any:
        mark = self._next()
        if mark in "{[":
            self._position += 1
            return self._map() if mark == "{" else self._list()
        if mark in "\"'":
            return self._quoted(mark)
        match = _PLAIN.match(self._text, self._position)
        if not match:
            raise ValueError(mark)
        self._position = match.end()
        return _NOTHING.get(match[0], match[0])

    def _quoted(self, mark: str) -> str:
        match = _QUOTED[mark].match(self._text, self._position)
        if not match:
            raise EOFError
        self._position = match.end()
        return _unquoted(match[0])

    def _list(self) -> list[Any]:
        found = []
        while self._next() != "]":
            found.append(self._value())
            self._separator("]")
        self._position += 1
        return found

    def _map(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._next() != "}":
            key = self._value()
            if not isinstance(key, str):
                raise ValueError("key")
            found[key] = None
            if self._next() == ":":
                self._position += 1
                found[key] = None if self._next() in ",}" else self._value()
            self._separator("}")
        self._position += 1
        return found

    def _separator(self, end: str) -> None:
        mark = self._next()
        if mark == ",":
            self._position += 1
        elif mark != end:
            raise ValueError(mark)


def _unquoted(text: str) -> str:
    return str(json.loads(text)) if text[0] == '"' else text[1:-1].replace("''", "'")
