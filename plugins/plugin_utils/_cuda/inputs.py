# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check template input of the CUDA filters and tests, and raise one kind of error."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError

from .compatibility import CudaError, Verdict, judge


def verdict(plugin: str, cuda: Any, driver: Any, gpu: Any, data_center: Any = None) -> Verdict:
    """Return how a driver runs a toolkit; raises AnsibleFilterError for invalid input."""
    if data_center is not None and not isinstance(data_center, bool):
        raise AnsibleFilterError(f"{plugin}: data_center must be true or false, not {data_center!r:.60}")
    try:
        return judge(
            text(plugin, "the CUDA version", cuda),
            text(plugin, "the driver version", driver),
            None if gpu is None else text(plugin, "the GPU", gpu),
            data_center,
        )
    except CudaError as error:
        raise AnsibleFilterError(f"{plugin}: {error}") from error


def text(plugin: str, what: str, value: Any) -> str:
    """Return a version as text; refuses floats, because YAML reads an unquoted 12.10 as 12.1. Integers are exact."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    hint = "; put it in quotes, because numbers lose trailing zeros" if isinstance(value, float) else ""
    raise AnsibleFilterError(f"{plugin}: {what} must be text, not {value!r:.60} ({type(value).__name__}){hint}")
