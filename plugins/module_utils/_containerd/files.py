# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the files of containerd's configuration, in the order in which containerd merges them.

As LoadConfig and resolveImports in containerd's cmd/containerd/server/config/config.go do.
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
_SECRET = re.compile(
    r"""(?<![\w-])(?P<key>["']?(?:password|auth|identitytoken|identity_token|registrytoken|token)["']?[ \t]*=[ \t]*)"""
    r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*')""",
    re.IGNORECASE,
)


def config_files(root: str, config: str, drop_ins: str) -> list[dict[str, Any]]:
    """The configuration file and what it imports, directly or not; then ``drop_ins`` (a pattern) that it does not.

    Each is a dictionary of ``path``, ``text`` (None for one that is imported by name and does not exist) and
    ``imported``. Passwords in the text are masked. Raises DomainError for a file that can't be read.
    """
    found = imported_files(root, [config] if os.path.lexists(under(root, config)) else [])
    known = {file["path"] for file in found}
    left = [path for path in _matches(root, drop_ins) if path not in known]
    return found + [{**file, "imported": False} for path in left for file in [_read(root, path)]]


def imported_files(root: str, patterns: list[str]) -> list[dict[str, Any]]:
    """What these patterns match, and all that those files import. Dictionaries as ``config_files`` has them."""
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
    """The strings in the array ``imports`` of a TOML text, which may be damaged further on.

    There is no TOML reader in Python 3.9. ``imports`` stands before the first table, so little has to be understood.
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
    """The same TOML with the values of passwords and tokens of registries replaced."""
    return _SECRET.sub(r'\g<key>"********"', text)


def _read(root: str, path: str) -> dict[str, Any]:
    text = read_text(under(root, path))
    return {"path": path, "text": None if text is None else masked(printable(text)), "imported": True}


def _words(text: str) -> Iterator[str]:
    """Tokens of TOML up to what is none."""
    position = 0
    while position < len(text):
        word = _WORD.match(text, position)
        if word and word[1] is not None:
            yield word[1] or "\n"
            position = word.end()
            continue
        start = word.end() if word else position
        position = _string_end(text, start)
        if position < 0:
            return
        yield text[start:position]


def _string_end(text: str, start: int) -> int:
    """Where a string ends that begins here, -1 when it does not end."""
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
    if word[0] not in "\"'":
        return word
    if word.startswith(('"""', "'''")):
        word = word[2:-2]
    if word[0] == "'":
        return word[1:-1]
    try:
        # A basic string of TOML is a string of JSON, but for escapes that no path needs.
        return str(json.loads(word, strict=False))
    except ValueError:
        return word[1:-1]


def _matches(root: str, pattern: str) -> list[str]:
    """The paths that match, sorted as Go's filepath.Glob does; a path without an asterisk stands for itself."""
    if "*" not in pattern:
        return [pattern]
    paths = [Path("/")]
    for part in Path(pattern).parts[1:]:
        if _MAGIC.search(part):
            # Go negates with a circumflex.
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
