# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The header of HTTP Basic authentication. Pure functions."""

from __future__ import annotations

import base64


def basic(username: str, password: str) -> str:
    """Return the value of the Authorization header."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
