# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._driver.packages import Wanted
from ..plugin_utils._driver.plan import plan, upgrade

DOCUMENTATION = r"""
name: driver_plan
short_description: Decide which driver a host gets, by which packages, and what of it is pending
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Decides by the distribution, the source, the branch, the GPUs, Secure Boot, and by what the host has already.
  - For an upgrade it also decides what the node can return to, and what an interrupted upgrade has left.
positional: _input, versions, wanted, node
options:
  _input:
    description: The host, as M(gpulab.kubernetes.preflight_info) reads it; empty for one that was not read.
    type: dict
    required: true
  versions:
    description: The table of drivers, C(packages) of each version from the distribution to the packages' version.
    type: dict
    required: true
  wanted:
    description: >-
      C(version), C(source) (as C(nvidia_driver_source)), C(modules) (V(open), V(proprietary) or V(auto)) and C(extent)
      (V(compute) or V(full)).
    type: dict
    required: true
  node:
    description: >-
      The node, as the API returns it, if this is an upgrade. What an interrupted one has recorded in its annotation
      C(gpulab.io/driver-upgrade) counts.
    type: dict
"""

EXAMPLES = r"""
- name: Show what would be installed
  ansible.builtin.debug:
    msg: "{{ preflight_host | gpulab.kubernetes.driver_plan(table, {'version': '580.178.04'}) }}"
"""

RETURN = r"""
_value:
  description:
    - C(version), and the C(problem) if no packages of it are known.
    - Whether the driver comes C(by_packages), C(by_pod), is C(loaded), and whether it C(interrupts) another that is.
    - C(packages), those for C(pinning), whether apt C(preferences) have to keep their versions together, what is to
      C(follow) (C(version) and the versions that it C(replaces)), and whether the C(fabric_manager) is needed.
    - C(headers), which all may be missing, and C(headers_problem), what to say when the first of them is missing (empty
      if that does not matter); both only if a module has to be built.
    - C(pending), packages and their versions that NVIDIA's repository has to hold, since the host lacks one of them.
    - >-
      With O(node) also C(upgrade) with C(pending), whether it was C(interrupted), the C(former) version, the C(package)
      that shows what that driver is made of, the plan to C(return) to it (empty if there is none), the C(services) that
      were stopped, and the resources that the device plugin C(offered).
  type: dict
"""


def driver_plan(
    host: Mapping[str, Any],
    versions: Mapping[str, Any],
    wanted: Mapping[str, Any],
    node: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    settings: dict[str, Any] = {name: str(value) for name, value in wanted.items()}
    asked = Wanted(**settings)
    return plan(host, asked, versions) if node is None else upgrade(host, asked, versions, node)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"driver_plan": driver_plan}
