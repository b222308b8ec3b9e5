# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._driver.fit import AUTO, with_gpus_left_out
from ..plugin_utils._driver.version import Host, choose, unread

DOCUMENTATION = r"""
name: driver_versions
short_description: Choose the driver version of each host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - V(auto) is resolved for all hosts of a pool together - to the newest version in the table that the repository of
    each host's distribution provides and that supports its GPUs. An installed version that is in the table is kept.
positional: _input, hostvars, versions
options:
  _input:
    description: Names of the hosts. A host that is named twice counts once.
    type: list
    elements: str
    required: true
  hostvars:
    description: >-
      Variables of the hosts, with the data that preflight has read (C(__preflight_reading)). For a host outside the
      run, only its variables from the inventory are used.
    type: dict
    required: true
  versions:
    description: Table of drivers, with the package versions of each driver version by distribution in C(packages).
    type: dict
    required: true
  further:
    description: Results of M(gpulab.kubernetes.preflight_info) for hosts outside the run, each with its C(item).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Choose the driver version of each host
  ansible.builtin.set_fact:
    choice: "{{ groups['all'] | gpulab.kubernetes.driver_versions(hostvars, table) }}"
"""

RETURN = r"""
_value:
  description:
    - C(hosts), with the C(version) of each host that was read and has GPUs, or the reason why there is none (C(why))
      and C(advice).
    - C(unread), hosts that are in the same pool as a host whose version is undecided.
  type: dict
"""


def driver_versions(
    names: Sequence[str],
    hostvars: Mapping[str, Any],
    versions: Mapping[str, Any],
    further: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    read = {each["item"]: each for each in further if each.get("gpus") is not None and "os" in each}
    hosts = {str(name): _host(str(name), hostvars[name], read.get(name, {})) for name in dict.fromkeys(names)}
    try:
        found = {name: asdict(choice) for name, choice in choose(hosts, versions).items()}
        return {"hosts": found, "unread": unread(hosts, versions)}
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"Error while choosing the driver's version: bad input ({error!r})") from error


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
        return {"driver_versions": driver_versions}
