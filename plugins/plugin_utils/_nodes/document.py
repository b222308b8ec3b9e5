# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read YAML texts that come from a cluster or a host."""

from __future__ import annotations

from typing import Any

import yaml


def read_document(text: Any) -> dict[str, Any]:
    """Return a mapping, empty if the text is none. A text with aliases could become very large."""
    if not isinstance(text, str):
        return {}
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            return {}
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
