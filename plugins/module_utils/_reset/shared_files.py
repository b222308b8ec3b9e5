# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Undo changes in files that others change, too: /etc/hosts, fstab, apt's sources, waagent.conf. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from .._first_run import Before
from .._host import hosts_file
from .._host.managed_files import REPLACED
from .._host.swap_origins import WAAGENT
from .._host.swap_state import without_azure_swap, without_swap
from . import known

FSTAB = "/etc/fstab"
_HOSTS = (hosts_file.PATH, hosts_file.TEMPLATE)
_SOURCES = re.compile(r"/etc/apt/sources\.list|/etc/apt/sources\.list\.d/(?!gpulab-)[^/]+")
_REASON = b"# Disabled by gpulab.kubernetes"
_OURS = re.compile(rb"gpulab\.kubernetes|gpulab_kubernetes")


@dataclass(frozen=True)
class File:
    """A file, or with ``link`` a symbolic link."""

    data: bytes = b""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    link: str = ""


def is_ours(name: str, file: File) -> bool:
    """Return whether the name or the text shows that this collection wrote the whole file."""
    if name in (*_HOSTS, FSTAB, WAAGENT) or _SOURCES.fullmatch(name):
        return False
    own = name.removesuffix(REPLACED).rpartition("/")[2]
    return "gpulab" in own or name in known.UNMARKED or bool(_OURS.search(file.data))


def as_before(copy: File, before: Before) -> File:
    """Return the copy with the mode and owner of the original."""
    if "link" in before:
        return copy
    return replace(copy, mode=int(str(before["mode"]), 8), uid=int(before["uid"]), gid=int(before["gid"]))


def without_block(name: str, file: File) -> File | None:
    """Return a hosts file without the block of names, None if this is not such a file or it has no block."""
    if name not in _HOSTS or file.link:
        return None
    undone = hosts_file.with_block(_text(file.data), {}).encode("utf-8", "surrogateescape")
    return None if undone == file.data else replace(file, data=undone)


def undone(name: str, file: File, copy: File) -> File | None:
    """Return a shared file without what this collection has changed in it, None if the file is not shared.

    ``copy`` is the original: only lines that it has are restored.
    """
    if file.link or copy.link:
        return None
    if name in _HOSTS:
        return without_block(name, file) or file
    if name in (FSTAB, WAAGENT):
        change = without_swap if name == FSTAB else without_azure_swap
        if change(_text(copy.data)).encode("utf-8", "surrogateescape") == file.data:
            return replace(file, data=copy.data)
    if name == FSTAB or _SOURCES.fullmatch(name):
        return replace(file, data=_uncommented(file.data, copy.data))
    return file if name == WAAGENT else None


def _uncommented(data: bytes, original: bytes) -> bytes:
    """Return lines as they were in the original, without the comments that it does not have."""
    before = Counter(original.split(b"\n"))
    surplus = Counter(data.split(b"\n")) - before
    lines = []
    for line in data.split(b"\n"):
        bare = line[2:] if line.startswith(b"# ") else b""
        is_new = surplus[line] > 0
        surplus[line] -= is_new
        if is_new and line.startswith(_REASON):
            continue
        lines.append(bare if is_new and bare.strip() and bare in before else line)
    return b"\n".join(lines)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
