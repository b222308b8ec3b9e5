# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find containerd's configuration files in the order in which containerd merges them.

The order is that of LoadConfig and resolveImports in containerd's cmd/containerd/server/config/config.go.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._errors import DomainError
from .._files import printable, read_text, under

_WORD = re.compile(r"(?:[ \t\r]+|#[^\n]*)*([^\s=\[\]{},.\"'#]+|[\s=\[\]{},.]|\Z)?")
_MAGIC = re.compile(r"[*?[]")
_ESCAPED_OR_QUOTE = re.compile(r"\\.|\"|\n", re.DOTALL)
_ESCAPED_OR_QUOTES = re.compile(r"\\.|\"{3,5}", re.DOTALL)
_QUOTES = re.compile("'{3,5}")
_COMMENT = re.compile(r"#[^\n]*")
# Keys, without - and _, with secret values. All values in a header are secret.
_SECRET = re.compile(
    r".*(?:passw(?:or)?d|passphrase|token|secret|credentials?|auth|authorization|apikey|accesskey|secretkey|privatekey)",
    re.IGNORECASE,
)
_HEADERS = ("header", "headers")
# An @ also precedes the digest of an image.
_USER = re.compile(r"(?<=://).*@|^[^/@\s]+:[^/@]*@(?!sha256:)", re.DOTALL)
# A header, command argument or environment variable in a single string.
_TELLING = re.compile(
    r"(?:passw(?:or)?d|token|secret|authorization|api[-_]?key)[\"']?\s*[:=]|\b(?:basic|bearer)\s", re.IGNORECASE
)
_ASSIGNED = re.compile(r"((?:passw(?:or)?d|token|secret|auth(?:orization)?)[\"']?[ \t]*=).*", re.IGNORECASE)
_QUOTED_USER = re.compile(r"(?<=://)\S*@")
_MASK = '"********"'
_NOT_TOML = "= the rest is not TOML\n"


def config_files(root: str, config: str, drop_ins: str) -> list[dict[str, Any]]:
    """Return the configuration file, its direct and indirect imports, and the other files that match ``drop_ins``.

    Each is a dictionary of ``path``, ``text`` (None for a missing file that is imported by name) and ``imported``.
    Passwords in the text are masked. Raise DomainError for an unreadable file.
    """
    found = imported_files(root, [config] if os.path.lexists(under(root, config)) else [])
    known = {file["path"] for file in found}
    left = [path for path in _matches(root, drop_ins) if path not in known]
    return found + [{**file, "imported": False} for path in left for file in [_read(root, path)]]


def imported_files(root: str, patterns: list[str]) -> list[dict[str, Any]]:
    """Return the files that match the patterns and all their imports, as in ``config_files``."""
    pending = [path for pattern in patterns for path in _matches(root, pattern)]
    files: dict[str, dict[str, Any]] = {}
    for path in pending:
        # The list grows below.
        if path not in files:
            files[path] = _read(root, path)
            for pattern in import_patterns(files[path]["text"] or ""):
                pending += _matches(root, os.path.normpath(Path(path).parent / pattern))
    return list(files.values())


def import_patterns(text: str) -> list[str]:
    """Return the strings in the array ``imports`` of a TOML text, which may be damaged after it.

    Python 3.9 has no TOML parser. ``imports`` comes before the first table, so a small part of the syntax is
    sufficient.
    """
    found: list[str] = []
    key: list[str] = []
    depth, value = 0, False
    for word in _words(text):
        if word == "\n":
            if depth == 0:
                key, value = [], False
        elif value:
            depth += (word in ("[", "{")) - (word in ("]", "}"))
            if word[0] in "\"'" and key == ["imports"] and depth == 1:
                found.append(_unquoted(word))
        elif word == "=":
            value = True
        elif word == "[":
            break
        elif word != ".":
            key.append(_unquoted(word))
    return found


def masked(text: str) -> str:
    """Return TOML without comments and with masked passwords, tokens, headers and users in addresses.

    Everything after a syntax error is omitted, because keys and values can't be distinguished there.
    """
    masker, pieces, end = _Masker(), [], 0
    safe = 0
    for start, stop in _spans(text):
        shown = masker.show(text[start:stop]) if stop > 0 else None
        if shown is None:
            break
        pieces += [_COMMENT.sub("", text[end:start]), shown]
        end = stop
        if masker.between:
            safe = len(pieces)
    else:
        if masker.show("\n") is not None and masker.between:
            return "".join([*pieces, _COMMENT.sub("", text[end:])])
    return "".join([*pieces[:safe], _NOT_TOML])


def masked_error(text: str) -> str:
    """Return a masked error message of containerd, which may quote its configuration."""
    return _ASSIGNED.sub(r"\1 ********", _QUOTED_USER.sub("********@", text))


class _Masker:
    """Tracks the structure of a TOML text, token by token."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._header = self._headers = self._value = self._secret = self._hidden = False
        # Enclosing arrays and inline tables, and whether all their values are secret.
        self._around: list[tuple[str, bool]] = []

    @property
    def between(self) -> bool:
        """Return whether the last token ended an entry."""
        return not (self._keys or self._header or self._value or self._around)

    def show(self, word: str) -> str | None:
        """Return the text to show for a token, None if it is a syntax error here."""
        if word == "\n":
            return word if self._end_line() else None
        if word in "[]{},=" and not self._punctuation(word):
            return None
        if word in "[]{},=.":
            return "" if word == "." and self._hidden else word
        if word[0] not in "\"'" and "@" in word:
            return None
        if not self._value and word.startswith(('"""', "'''")):
            return None
        if not self._value:
            key, certain = _decoded(word)
            self._keys.append(key if certain else "secret")
            return _shown(word)
        if not self._secret or word in ("true", "false"):
            return _shown(word)
        hidden, self._hidden = self._hidden, True
        return "" if hidden else _MASK

    def _end_line(self) -> bool:
        if self._around:
            return True
        good = self._value or self._header or not self._keys
        if self._header:
            self._headers = any(key.lower() in _HEADERS for key in self._keys)
        self._keys, self._header, self._value, self._hidden = [], False, False, False
        return good

    def _punctuation(self, word: str) -> bool:
        kind = self._around[-1][0] if self._around else ""
        if self._header:
            return word in "[]"
        if word == "=":
            good, self._value = bool(self._keys) and not self._value, True
            inherited = self._around[-1][1] if self._around else self._headers
            self._secret = inherited or any(map(_is_secret, self._keys))
            return good
        if not self._value and not self._around:
            self._header = word == "[" and not self._keys
            return self._header
        if word in "[{":
            good = self._value
            self._around.append((word, self._secret))
            self._value = word == "["
        elif word == ",":
            good, self._value = bool(kind), kind == "["
        else:
            good, self._value = kind + word in ("[]", "{}"), True
            self._secret = self._around.pop()[1] if self._around else self._secret
        self._keys, self._hidden = [], False
        return good


def _is_secret(key: str) -> bool:
    return key.lower() in _HEADERS or bool(_SECRET.fullmatch(key.replace("-", "").replace("_", "")))


def _shown(word: str) -> str:
    """Return a key or value without users in addresses."""
    if word[0] not in "\"'":
        return word
    value, certain = _decoded(word)
    hidden = ("://" in value and not certain) or _TELLING.search(value)
    shown = "********" if hidden else _USER.sub("********@", value)
    return word if shown == value else json.dumps(shown)


def _read(root: str, path: str) -> dict[str, Any]:
    text = read_text(under(root, path))
    return {"path": path, "text": None if text is None else masked(printable(text)), "imported": True}


def _words(text: str) -> Iterator[str]:
    """Yield TOML tokens up to a syntax error."""
    for start, end in _spans(text):
        if end < 0:
            return
        yield text[start:end]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of TOML tokens. For an unterminated string, which is the last token, the end is -1."""
    position = 0
    while position < len(text):
        word = _WORD.match(text, position)
        if word and word[1] is not None:
            if word[1]:
                yield word.span(1)
            position = word.end()
            continue
        start = word.end() if word else position
        position = _string_end(text, start)
        yield start, position
        if position < 0:
            return


def _string_end(text: str, start: int) -> int:
    """Return the end of the string that starts here, -1 if it is unterminated."""
    quote = text[start]
    if text.startswith("'''", start):
        closing = _QUOTES.search(text, start + 3)
        return closing.end() if closing else -1
    if quote == "'":
        end, line = text.find("'", start + 1), text.find("\n", start + 1)
        return -1 if end < 0 or -1 < line < end else end + 1
    long = text.startswith('"""', start)
    pattern, first = (_ESCAPED_OR_QUOTES, start + 3) if long else (_ESCAPED_OR_QUOTE, start + 1)
    for match in pattern.finditer(text, first):
        if match[0][0] != "\\":
            return -1 if match[0] == "\n" else match.end()
    return -1


def _unquoted(word: str) -> str:
    return _decoded(word)[0]


def _decoded(word: str) -> tuple[str, bool]:
    """Return the value of a key or string, and whether all its escapes are known."""
    if word[0] not in "\"'":
        return word, True
    if word.startswith(('"""', "'''")):
        word = word[2:-2]
    if word[0] == "'":
        return word[1:-1], True
    try:
        # TOML's basic strings are JSON strings, except for escapes that paths do not need.
        return str(json.loads(word, strict=False)), True
    except ValueError:
        return word[1:-1], False


def _matches(root: str, pattern: str) -> list[str]:
    """Return the matching paths in the order of Go's filepath.Glob; without an asterisk, return the path itself."""
    if "*" not in pattern:
        return [pattern]
    paths = [Path("/")]
    for part in Path(pattern).parts[1:]:
        if _MAGIC.search(part):
            # Go uses ^ for negation.
            fits = re.compile(fnmatch.translate(part.replace("[^", "[!"))).match
            paths = [path / name for path in paths for name in _names(under(root, str(path))) if fits(name)]
        else:
            paths = [path / part for path in paths]
    return [str(path) for path in paths if under(root, str(path)).is_file()]


def _names(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise DomainError(f"Error while reading {directory}: {error.strerror}") from error
