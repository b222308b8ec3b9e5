# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module hosts_file: its options and what it does."""

from __future__ import annotations

from typing import Any

from .._host import hosts_file


def ensure(module: Any) -> dict[str, Any]:
    return hosts_file.ensure(module, module.params["root"], module.params["names"])


SPECIFICATION: dict[str, Any] = {
    "argument_spec": {
        "names": {"type": "dict", "required": True},
        "root": {"type": "path", "default": "/"},
    },
    "supports_check_mode": True,
}
