# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find nvidia-smi of a driver whose files are in a directory other than /. Pure functions."""

from __future__ import annotations

NVIDIA_SMI = "nvidia-smi"
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib64")


def nvidia_smi(root: str, executable: str = NVIDIA_SMI) -> tuple[str, dict[str, str]]:
    """Return the program and its environment variables; for the root / that is ``executable`` without variables."""
    base = root.rstrip("/")
    if not base:
        return executable, {}
    return f"{base}/usr/bin/{NVIDIA_SMI}", {"LD_LIBRARY_PATH": ":".join(f"{base}/{name}" for name in _LIBRARIES)}
