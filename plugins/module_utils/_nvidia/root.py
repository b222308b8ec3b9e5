# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where nvidia-smi is, of a driver whose files lie below another directory than /. Pure."""

from __future__ import annotations

NVIDIA_SMI = "nvidia-smi"
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib64")


def nvidia_smi(root: str, executable: str = NVIDIA_SMI) -> tuple[str, dict[str, str]]:
    """The program to call, and what its environment needs; with the root / it is ``executable``, and nothing."""
    base = root.rstrip("/")
    if not base:
        return executable, {}
    return f"{base}/usr/bin/{NVIDIA_SMI}", {"LD_LIBRARY_PATH": ":".join(f"{base}/{name}" for name in _LIBRARIES)}
