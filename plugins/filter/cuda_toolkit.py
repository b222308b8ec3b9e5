# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._cuda.compatibility import RUNS, CudaError
from ..plugin_utils._cuda.inputs import text
from ..plugin_utils._cuda.plan import packages_of, plan, problem, shown

DOCUMENTATION = r"""
name: cuda_toolkit
short_description: Internal filters for CUDA toolkits
extends_documentation_fragment: gpulab.kubernetes.internal
"""

cuda_toolkit_problem = problem


def cuda_packages(names: Iterable[str], minors: Iterable[Any]) -> list[str]:
    """Select the packages that belong only to given CUDA toolkits."""
    installed = list(names)
    try:
        found = [name for minor in minors for name in packages_of(text("cuda_packages", "a version", minor), installed)]
    except CudaError as error:
        raise AnsibleFilterError(f"cuda_packages: {error}") from error
    return sorted(set(found))


def cuda_toolkits(
    versions: Any,
    driver: Any = "",
    gpus: Sequence[Any] = (),
    accept: Sequence[str] = RUNS,
    revision: str = "-1",
    system: str = "",
) -> list[dict[str, Any]]:
    """Determine the packages of CUDA toolkits, and whether a driver runs them."""
    if isinstance(versions, (str, bytes)) or not isinstance(versions, Sequence):
        raise AnsibleFilterError(f"cuda_toolkits: the versions must be a list, not {versions!r:.60}")
    read = [text("cuda_toolkits", "a CUDA version", version) for version in versions]
    known = text("cuda_toolkits", "the driver version", driver or "")
    named = [text("cuda_toolkits", "a GPU", gpu) for gpu in gpus]
    try:
        found = [toolkit.fields() for toolkit in plan(read, known, named, accept, revision, system)]
    except CudaError as error:
        raise AnsibleFilterError(f"cuda_toolkits: {error}") from error
    return [{**toolkit, "words": shown(toolkit)} for toolkit in found]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "cuda_packages": cuda_packages,
            "cuda_toolkit_problem": cuda_toolkit_problem,
            "cuda_toolkits": cuda_toolkits,
        }
