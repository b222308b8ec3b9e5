# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plugins about CUDA have in common: input of a template, checked, and one kind of error."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError

from .compatibility import CudaError, Verdict, judge


def verdict(plugin: str, cuda: Any, driver: Any, gpu: Any, data_center: Any = None) -> Verdict:
    """Raise AnsibleFilterError for anything that can't be judged."""
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
    """Refuse what YAML made of an unquoted version: 12.10 is 12.1 then. A whole number loses nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    hint = "; put it in quotes, because numbers lose trailing zeros" if isinstance(value, float) else ""
    raise AnsibleFilterError(f"{plugin}: {what} must be text, not {value!r:.60} ({type(value).__name__}){hint}")
