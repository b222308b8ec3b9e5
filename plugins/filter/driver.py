# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Callable

from ..plugin_utils._driver.fit import AUTO, with_gpus_left_out
from ..plugin_utils._driver.packages import Wanted
from ..plugin_utils._driver.plan import plan, upgrade
from ..plugin_utils._driver.version import Host, choose, unread
from ..plugin_utils._filter_errors import filter_errors

DOCUMENTATION = r"""
name: driver
short_description: Internal filters for the NVIDIA driver
extends_documentation_fragment: gpulab.kubernetes.internal
"""

ANNOTATION = "gpulab.io/driver-installer"


def driver_installers(
    existing: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, str]], nodes: Iterable[str]
) -> dict[str, Any]:
    """Decide which driver-installer DaemonSets a cluster needs."""
    found: dict[str, dict[str, Any]] = {}
    play, names = set(nodes), set()
    for daemonset in existing:
        names.add(str(daemonset["metadata"]["name"]))
        record = json.loads(daemonset["metadata"].get("annotations", {}).get(ANNOTATION, "{}"))
        left = [node for node in record.get("nodes", []) if node not in play]
        if left:
            found[record["version"]] = {**record, "nodes": left}
    for host in wanted:
        entry = found.setdefault(host["version"], {"version": host["version"], "nodes": []})
        entry.update(name=f"driver-{host['version'].replace('.', '-')}", image=host["image"], root=host["root"])
        entry["nodes"] = sorted({*entry["nodes"], host["node"]})
    present = [found[version] for version in sorted(found)]
    return {"present": present, "absent": sorted(names - {entry["name"] for entry in present})}


@filter_errors()
def driver_plan(
    host: Mapping[str, Any],
    versions: Mapping[str, Any],
    wanted: Mapping[str, Any],
    node: Mapping[str, Any] | None = None,
    services: Sequence[str] = (),
) -> dict[str, Any]:
    """Decide which driver and packages a host gets, and which changes are pending."""
    asked = Wanted(**{**wanted, "version": str(wanted["version"])})
    return plan(host, asked, versions) if node is None else upgrade(host, asked, versions, node, services)


@filter_errors("choosing the driver's version")
def driver_versions(
    names: Sequence[str],
    hostvars: Mapping[str, Any],
    versions: Mapping[str, Any],
    further: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Choose the driver version of each host."""
    read = {each["item"]: each for each in further if each.get("gpus") is not None and "os" in each}
    hosts = {str(name): _host(str(name), hostvars[name], read.get(name, {})) for name in dict.fromkeys(names)}
    found = {name: asdict(choice) for name, choice in choose(hosts, versions).items()}
    return {"hosts": found, "unread": unread(hosts, versions)}


def _host(name: str, variables: Mapping[str, Any], further: Mapping[str, Any]) -> Host:
    reading = variables.get("__preflight_reading") or {}
    settings = reading.get("settings") or {}

    def setting(variable: str, default: str) -> str:
        return str(settings.get(variable, variables.get(variable, default)))

    ignored = settings.get("ignored_gpus", variables.get("cluster_ignored_gpus")) or []
    return Host(
        name=name,
        version=setting("nvidia_driver_version", AUTO),
        source=setting("nvidia_driver_source", "cuda_repository"),
        pool=str(variables.get("cluster_node_pool") or ""),
        facts=with_gpus_left_out(reading.get("facts") or further, ignored),
        modules=setting("nvidia_driver_modules", AUTO),
        image=setting("nvidia_driver_installer_image", ""),
    )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "driver_installers": driver_installers,
            "driver_plan": driver_plan,
            "driver_versions": driver_versions,
        }
