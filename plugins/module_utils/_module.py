# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How every module ends: with its result, or with the text of a DomainError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ._errors import DomainError


def run(module: Any, function: Callable[[Any], Mapping[str, Any]]) -> None:
    """Call ``function`` with the module and end the process with what it returns, or with its DomainError."""
    try:
        result = function(module)
    except DomainError as error:
        module.fail_json(msg=str(error), **error.fields)
    module.exit_json(**{"changed": False, **result})
