# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one family of errors that the readers raise; modules turn them into fail_json at the edge."""

from __future__ import annotations

import os
from typing import Any


class DomainError(Exception):
    """Something went wrong that a person can understand.

    The text is the whole message. ``fields`` are further values for ``fail_json`` (C(rc), C(stdout), ...).
    C(inconclusive) among them says that the failure proves nothing about what was to be checked.
    """

    def __init__(self, message: str, /, **fields: Any) -> None:
        super().__init__(message)
        self.fields = fields


# What may reach the edge of a module: what it raises itself, files and connections that fail, text that is not UTF-8.
REPORTED = (DomainError, OSError, UnicodeError)


def reported(error: Exception) -> DomainError:
    """Return one of the REPORTED errors as a DomainError with one sentence: what failed, where and why."""
    if isinstance(error, DomainError):
        return error
    if isinstance(error, OSError):
        place = error.filename if isinstance(error.filename, (str, bytes)) else "a file or a connection"
        place = os.fsdecode(place).encode("utf-8", "replace").decode()
        return DomainError(f"Error while accessing {place}: {error.strerror or str(error) or type(error).__name__}")
    return DomainError(f"Error while reading or writing text: {error}")
