# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validate paths of the Kubernetes API, which contain names from hosts and objects."""

from __future__ import annotations

import re

# Names of objects, and NAME:PORT before /proxy. Clients resolve "." and "..", so no segment begins with a dot.
_PATH = re.compile(r"(?:/[A-Za-z0-9][-A-Za-z0-9._:]*)+")


def path_problem(path: str) -> str:
    """Return why a request to this path must not be sent, as the end of a sentence; empty for a valid path."""
    return "" if _PATH.fullmatch(path) else "a name in it is not valid in Kubernetes. Nothing was sent"
