# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._upgrade.model import Settings, blocking, cluster_of, hosts_of
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
    return plan(hosts_of(names, hostvars, control_planes), cluster_of(hostvars, api_host), Settings(**settings))


def upgrade_images(settings: Mapping[str, Any], control_plane: bool, etcd: str = "") -> list[str]:
    """List the images that a host needs for the new version."""
    return images(Settings(**settings), control_plane, etcd)


def upgrade_serial(hostvars: Mapping[str, Any]) -> str:
    """Return how many workers are upgraded at a time, as the plan has read it."""
    found = (hostvars[name].get("kubernetes_upgrade_serial") for name in hostvars)
    return next((str(each) for each in found if each), "1")


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "upgrade_images": upgrade_images,
            "upgrade_lines": lines,
            "upgrade_plan": upgrade_plan,
            "upgrade_processes": blocking,
            "upgrade_serial": upgrade_serial,
        }
