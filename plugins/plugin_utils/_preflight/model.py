# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data of preflight's rules. Rules are pure: readings and settings in, problems out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...module_utils._kubeadm.init_decision import ALIVE
from ...module_utils._problem import Problem
from .._driver.fit import with_gpus_left_out

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Reading:
    """One host: the result of preflight_info, or how reading it failed; ``settings`` are those of this host.

    A host that is ``left_out`` of the run is only compared with others, and is not checked itself.

    Settings that need a word: ``become`` (whether the inventory lets Ansible become root), ``proxied`` (whether the
    host uses a proxy), ``sysctls`` (as in ``host_sysctls``), ``packages`` (by component the names, the version, and the
    minimum that may be kept, empty for none), ``nvidia_driver_upgrading`` (whether this run changes the driver),
    ``containerd_files`` (those that will be written, the base first, each with path, text and ``gpus``, which is true
    for those of hosts with GPUs).
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

    @property
    def answers(self) -> bool:
        """Return whether the API server of this control plane answers."""
        return bool((self.facts.get("control_plane") or {}).get("api") == ALIVE)


def readings(hosts: Facts) -> tuple[Reading, ...]:
    """Return the readings of hosts, by name ``facts``, ``failure`` and ``settings``, without GPUs that are left out."""
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
    """All readings of a run, and the settings that hosts share, as declared.

    Settings that need a word: ``api`` (the result of api_reach_info), ``gpu_manager_changing`` (whether this run
    changes the GPU manager), ``api_name`` (the API's name if it is the cluster's endpoint, else empty),
    ``hosts`` and ``addresses`` (those of the inventory, also outside of the run), ``name`` (the name of the cluster),
    ``kept`` (files on the controller that know it, as ``kept_files`` returns them), ``new_cluster`` and ``restores``
    (whether the run may replace it, or restores it), ``cluster_name``, ``cluster_api_name``, ``recorded_name`` and
    ``recorded_api_name`` (as set, and as the control plane has them), ``nvidia_driver_versions`` (for each version, the
    distributions that have it), ``device_plugin_root`` (where the device plugin looks for the driver), ``minimum``
    (``memory_mib`` and ``cpus`` of ``control_plane`` and ``worker``), ``disk_mib`` and ``driver_disk_mib`` (by path,
    the latter in addition if a driver will be installed).
    """

    readings: tuple[Reading, ...]
    settings: Facts

    @property
    def read(self) -> tuple[Reading, ...]:
        return tuple(reading for reading in self.readings if reading.facts)

    @property
    def control_planes(self) -> tuple[Reading, ...]:
        """Return the control planes that were read."""
        return tuple(reading for reading in self.read if reading.host in self.settings["control_plane"])

    @property
    def control_plane(self) -> Reading | None:
        """Return the control plane that shows what the cluster has: preferably one that answers, or that is finished.

        While there is no cluster, it is the first one, None if that was not read.
        """
        found = sorted(self.control_planes, key=lambda reading: (not reading.answers, not reading.finished))
        is_known = found and (found[0].finished or found[0].host == self.settings["control_plane"][0])
        return found[0] if is_known else None


HostRule = Callable[[Reading, Cluster], Iterator[Problem]]
ClusterRule = Callable[[Cluster], Iterator[Problem]]
