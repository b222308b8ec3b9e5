# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mask secrets in command lines and in the output of programs. Values of ``no_log`` options are also masked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

MASK = "********"
_NAME = r"(?:passw(?:or)?d|passphrase|token|secret|(?:api|access|certificate)[_-]?key)"
_FLAG = rf"--?[\w-]{{0,40}}{_NAME}"
_VALUE = r"""(?:"[^"\n]*"|'[^'\n]*'|\S)+"""
# Words after an option's name in a sentence, and values of a mere switch.
_PROSE = r"(?!(?:is|was|are|has|had|must|may|can|cannot|could|should|needs|not|and|or|of|to|for|in|from|path|file)\b)"
_SWITCH = r"(?!(?:true|false|null|none)\b)"
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(://)[^\s/]+(?=@)",
        rf"(?i)({_NAME}[\"']?[ \t]*=[ \t]*){_SWITCH}{_VALUE}",
        rf"(?i)({_FLAG}[ \t]+)(?!--){_PROSE}{_VALUE}",
        rf"(?i)({_NAME}[\"'][ \t]*:[ \t]*){_VALUE}",
        # In a sentence, more words follow the colon.
        rf"(?im)((?:passw(?:or)?d|passphrase)[ \t]*:[ \t]*){_VALUE}(?=[ \t]*$)",
        rf"(?i)(authorization[\"']?[ \t]*[:=][ \t]*[\"']?(?:basic|bearer)?[ \t]*){_VALUE}",
        # A Kubernetes bootstrap token.
        r"()(?<![\w.-])[a-z0-9]{6}\.[a-z0-9]{16}(?![\w-]|\.\w)",
    )
)

_SECRET = re.compile(rf"(?i){_NAME}")
_ASSIGNED = re.compile(rf"(?is)^([\w-]*{_NAME}=).*")


def mask(text: str) -> str:
    """Return the text without users and passwords in URLs, tokens, and values with names of secrets."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\1{MASK}", text)
    return text


def is_secret(name: str) -> bool:
    """Return whether a setting has the name of a secret; one that ends in ``file`` contains a path."""
    return bool(_SECRET.search(name)) and not name.lower().endswith("file")


def command_line(argv: Sequence[str], secrets: Iterable[str] = ()) -> str:
    """Return a command as a user would type it, without ``secrets``. They are removed before quoting changes them."""
    # Not at the top, because the program for backups uses this file on hosts without Ansible.
    from ansible.module_utils.common.parameters import remove_values

    shown: list[str] = []
    is_value = False
    for word in remove_values(list(argv), set(secrets)):
        shown.append(MASK if is_value else mask(_ASSIGNED.sub(rf"\1{MASK}", word)))
        is_value = bool(re.fullmatch(_FLAG, word, re.IGNORECASE))
    return shlex.join(shown)
