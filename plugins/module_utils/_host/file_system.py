# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the file system of a path in the text of ``/proc/mounts``. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

_QUOTAS = re.compile(r"(?:usr|grp|prj|u|g|p)(?:j|x)?quota|quota|(?:usr|grp)jquota=.+")
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A mounted file system; ``quotas`` are its options that limit storage."""

    mount: str
    device: str
    kind: str
    quotas: list[str]


def mount_of(mounts: str, path: str) -> Mount:
    """Return the file system of an absolute path; the last one mounted at a directory covers the others."""
    found = Mount("/", "unknown", "unknown", [])
    for line in mounts.splitlines():
        words = line.split()
        if len(words) < 4:
            continue
        device, mount = (_OCTAL.sub(lambda code: chr(int(code[1], 8)), word) for word in words[:2])
        holds = PurePosixPath(mount) in (PurePosixPath(path), *PurePosixPath(path).parents)
        if holds and len(mount) >= len(found.mount):
            quotas = [option for option in words[3].split(",") if _QUOTAS.fullmatch(option)]
            found = Mount(mount, device, words[2], quotas)
    return found
