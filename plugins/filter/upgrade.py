# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._cluster.drain import to_evict
from ..plugin_utils._nodes.kubernetes import kubelet_change
from ..plugin_utils._upgrade.model import Facts, Settings, cluster_of, evicted_processes, hosts_of
from ..plugin_utils._upgrade.plan import images, plan
from ..plugin_utils._upgrade.text import lines

DOCUMENTATION = r"""
name: upgrade
short_description: Internal filters for upgrades of Kubernetes
extends_documentation_fragment: gpulab.kubernetes.internal
"""


def upgrade_plan(
    names: Sequence[str],
    hostvars: Mapping[str, Any],
    control_planes: Sequence[str],
    api_host: str,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Plan the upgrade of the hosts of a run."""
    cluster = cluster_of(hostvars, api_host)
    hosts = hosts_of(names, hostvars, control_planes, cluster)
    return plan(hosts, cluster, Settings(**settings), control_planes)


def upgrade_images(
    hostvars: Mapping[str, Any], api_host: str, table: Mapping[str, Facts], version: str, control_plane: bool
) -> list[str]:
    """List the images that a host needs for a version, of which the table may not have one."""
    return images(table.get(version, {}), version, cluster_of(hostvars, api_host).configuration, control_plane)


def upgrade_processes(
    users: Sequence[Facts], gpu_pods: Sequence[Facts], pods: Sequence[Mapping[str, Any]]
) -> list[Facts]:
    """List the processes with a GPU open that a drain would end. ``pods`` are those of the node, from the API."""
    movable = [{"uid": "", **pod["metadata"]} for pod in to_evict(pods)]
    return evicted_processes(users, gpu_pods, movable)


def upgrade_serial(hostvars: Mapping[str, Any]) -> str:
    """Return how many workers are upgraded at a time, as planned."""
    plans = (hostvars[name].get("kubernetes_upgrade_plan") for name in hostvars)
    return next((str(each["serial"]) for each in plans if each), "1")


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "kubelet_change": kubelet_change,
            "upgrade_images": upgrade_images,
            "upgrade_lines": lines,
            "upgrade_plan": upgrade_plan,
            "upgrade_processes": upgrade_processes,
            "upgrade_serial": upgrade_serial,
        }
