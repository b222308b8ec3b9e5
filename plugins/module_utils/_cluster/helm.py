# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What helm says of itself."""

from __future__ import annotations

import re

from .._errors import DomainError

# Charts in OCI registries, and the chart's own `kubeVersion` and `lookup`, as the GPU Operator's has them.
_MINIMUM = (3, 8)
_VERSION = re.compile(r"^v?(\d+)\.(\d+)\.(\d+)", re.MULTILINE)


def parse_version(text: str) -> str:
    """``3.22.0`` from ``v3.22.0+g1a2b3c4``, as ``helm version --short`` prints it; DomainError for other text."""
    match = _VERSION.search(text)
    if match is None:
        raise DomainError(f"Error while asking helm for its version: it printed {text.strip()[:200]!r}")
    return ".".join(match.groups())


def check_version(path: str, version: str) -> None:
    """Raises DomainError when it is too old."""
    if tuple(map(int, version.split(".")[:2])) < _MINIMUM:
        raise DomainError(
            f"Error while looking for helm: {path} has version {version}, and {'.'.join(map(str, _MINIMUM))} or newer "
            "is needed. Install a newer one, and name it with gpu_operator_helm."
        )
