# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reset knows about a host, and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import _first_run
from .._apt.dpkg import Package
from .._first_run import Record
from .._systemd import Unit
from .shared_files import File

REMOVE, RESTORE, KEEP = "remove", "restore", "keep"
# Kinds of actions, in the order in which they are carried out.
FILE, PACKAGE, SYSCTL, UNIT = _first_run.FILE, _first_run.PACKAGE, _first_run.SYSCTL, _first_run.UNIT
CONTAINERS, MOUNT, LINK, RULES, KUBECONFIG = "containers", "mount", "link", "packet filter", "kubeconfig"
MODULE = "kernel module"
HOLD, SERVICE, DIRECTORY, DATA, SWAP, RECORD = "hold", "service", "directory", "data", "swap", "record"
ORDER = (
    *(UNIT, CONTAINERS, MOUNT, LINK, RULES, KUBECONFIG, MODULE, PACKAGE, HOLD, FILE, SERVICE, DIRECTORY, DATA, SYSCTL),
    *(SWAP, RECORD),
)


@dataclass(frozen=True)
class Action:
    """``value`` is what the kind needs to restore something; it is not shown."""

    do: str
    kind: str
    name: str
    why: str = ""
    value: Any = None

    def __str__(self) -> str:
        return f"{self.do} {self.kind} {self.name}{f': {self.why}' if self.why else ''}"


@dataclass(frozen=True)
class Readings:
    """What a host has now. ``copies`` are those of the record; ``rules`` are counts by table of the packet filter.

    ``driver`` is the version of NVIDIA's loaded driver. ``mounts`` are mount points with the directory below which they
    are, ``directories`` exist, ``data`` are directories with the reason to keep them, and ``busy`` says that pods run.
    """

    record: Record = field(default_factory=lambda: Record({}))
    files: Mapping[str, File] = field(default_factory=dict)
    copies: Mapping[str, File] = field(default_factory=dict)
    packages: Mapping[str, Package] = field(default_factory=dict)
    units: Mapping[str, Unit] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, int] = field(default_factory=dict)
    mounts: tuple[tuple[str, str], ...] = ()
    directories: tuple[str, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)
    kubeconfigs: Mapping[str, bool] = field(default_factory=dict)
    cni: tuple[str, ...] = ()
    swaps: bool = False
    busy: bool = False
    etcd: str = ""
    state: tuple[str, ...] = ()
