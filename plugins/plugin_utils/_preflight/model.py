# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data of preflight's rules. Rules are pure: readings and settings in, problems out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...module_utils._problem import Problem
from .._driver.fit import with_gpus_left_out

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Reading:
    """One host: the result of preflight_info, or how reading it failed; ``settings`` are those of this host.

    A host that is ``left_out`` of the run is only compared with others, and is not checked itself.
    """

    host: str
    facts: Facts
    failure: Facts = field(default_factory=dict)
    settings: Facts = field(default_factory=dict)
    left_out: bool = False

    def problem(self, kind: str, what: str, where: str, why: str, do: str, **answers: str) -> Problem:
        return Problem(kind, what, where, why, do, self.host, answers=tuple(answers.items()))

    @property
    def finished(self) -> bool:
        """Return whether the host is already part of a cluster, and may use its ports and disks."""
        return bool(self.facts["cluster"]["finished"])


def readings(hosts: Facts) -> tuple[Reading, ...]:
    """Return the readings of hosts (see the filter's documentation) without GPUs that are left out."""
    return tuple(
        Reading(
            name,
            with_gpus_left_out(host["facts"], host["settings"].get("ignored_gpus") or ()),
            host["failure"],
            host["settings"],
            host.get("left_out", False),
        )
        for name, host in hosts.items()
    )


@dataclass(frozen=True)
class Cluster:
    """All readings of a run, and the settings that hosts share (see the filter's documentation)."""

    readings: tuple[Reading, ...]
    settings: Facts

    @property
    def read(self) -> tuple[Reading, ...]:
        return tuple(reading for reading in self.readings if reading.facts)

    @property
    def control_plane(self) -> Reading | None:
        """Return the control plane's reading, None unless there is exactly one control plane, and it was read."""
        names = self.settings["control_plane"]
        found = [reading for reading in self.read if len(names) == 1 and reading.host == names[0]]
        return found[0] if found else None


HostRule = Callable[[Reading, Cluster], Iterator[Problem]]
ClusterRule = Callable[[Cluster], Iterator[Problem]]
