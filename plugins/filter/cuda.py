# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Callable

from ..plugin_utils._cuda.families import identify
from ..plugin_utils._cuda.inputs import text, verdict


def cuda_compatibility(cuda: Any, driver: Any, gpu: Any = None, data_center: Any = None) -> dict[str, str | None]:
    """Determine whether and how an NVIDIA driver runs programs of a CUDA toolkit."""
    return asdict(verdict("cuda_compatibility", cuda, driver, gpu, data_center))


def gpu_family(gpu: Any) -> dict[str, Any]:
    """Look up the architecture of an NVIDIA GPU by its PCI device ID or its name."""
    found = identify(text("gpu_family", "the GPU", gpu))
    family = found.family if found else None
    return {
        "family": family.name if family else None,
        "open_modules": family.open_modules if family else None,
        "branches": {
            "first": family.first_branch if family else None,
            "last": family.last_branch if family else None,
        },
        "toolkits": {
            "first": family.first_toolkit if family else None,
            "last": family.last_toolkit if family else None,
        },
        "data_center": found.data_center if found else None,
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "cuda_compatibility": cuda_compatibility,
            "gpu_family": gpu_family,
        }
