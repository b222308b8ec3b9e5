# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base class of all errors that utilities raise; modules report them with fail_json."""

from __future__ import annotations

import os
from typing import Any


class DomainError(Exception):
    """A problem that is explained to the user.

    The text is the whole message. ``fields`` are further values for ``fail_json`` (``rc``, ``stdout``, ...);
    ``inconclusive`` means that the check itself could not be completed.
    """

    def __init__(self, message: str, /, **fields: Any) -> None:
        super().__init__(message)
        self.fields = fields


# Errors that a module reports: its own, failing files and connections, and text that is not UTF-8.
REPORTED = (DomainError, OSError, UnicodeError)


def reported(error: Exception) -> DomainError:
    """Convert one of the REPORTED errors to a DomainError with a sentence about what failed, where and why."""
    if isinstance(error, DomainError):
        return error
    if isinstance(error, OSError):
        place = error.filename if isinstance(error.filename, (str, bytes)) else "a file or a connection"
        place = os.fsdecode(place).encode("utf-8", "replace").decode()
        return DomainError(f"Error while accessing {place}: {error.strerror or str(error) or type(error).__name__}")
    return DomainError(f"Error while reading or writing text: {error}")
