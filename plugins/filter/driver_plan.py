# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils._errors import DomainError
from ..plugin_utils._driver.packages import Wanted
from ..plugin_utils._driver.plan import plan, upgrade

DOCUMENTATION = r"""
name: driver_plan
short_description: Decide which driver and packages a host gets, and which changes are pending
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - The decision depends on the distribution, the source, the branch, the GPUs, Secure Boot, and the existing driver.
  - For an upgrade, it also determines the driver to which the node can be rolled back, and the state of an interrupted
    upgrade.
positional: _input, versions, wanted, node, services
options:
  _input:
    description: Result of M(gpulab.kubernetes.preflight_info) for the host, empty if it was not read.
    type: dict
    required: true
  versions:
    description: Table of drivers, with the package versions of each driver version by distribution in C(packages).
    type: dict
    required: true
  wanted:
    description: >-
      C(version), C(source) (as C(nvidia_driver_source)), C(modules) (V(open), V(proprietary) or V(auto)), C(extent)
      (V(compute) or V(full)), whether a C(reboot) is allowed, Ansible's C(connection), and C(profiling), who may
      read the performance counters (V(administrators) or V(all)).
    type: dict
    required: true
  node:
    description: >-
      Node as returned by the API, if this is an upgrade. The state of an interrupted upgrade is read from its
      annotation C(gpulab.io/driver-upgrade).
    type: dict
  services:
    description: Names of the systemd units that an interrupted upgrade can have stopped. The record can name no others.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show what would be installed
  ansible.builtin.debug:
    msg: "{{ preflight_host | gpulab.kubernetes.driver_plan(table, {'version': '580.178.04'}) }}"
"""

RETURN = r"""
_value:
  description:
    - C(version), the kind of its C(modules) if packages install it, and C(problem) if its packages are not known.
    - C(profiling), why the setting for performance counters has no effect yet (empty if it has).
    - C(reboot), with the reason C(why) the run will probably need one (empty if none is known), whether it is
      C(allowed), and what to C(do).
    - Whether the driver is installed C(by_packages) or C(by_pod), is C(loaded), and whether it C(interrupts) another
      loaded driver.
    - C(packages), packages for C(pinning), whether apt C(preferences) must keep their versions together, which packages
      must C(follow) (C(version) and the versions that it C(replaces)), and whether the C(fabric_manager) is needed.
    - C(headers), which are all optional, and C(headers_problem), the message if the first of them is missing (empty if
      that does not matter); both only if a module must be built.
    - C(pending), the packages and versions that NVIDIA's repository must provide because the host lacks one of them.
    - >-
      With O(node) also C(upgrade) with C(pending), whether it was C(interrupted), the C(former) version, the C(package)
      that identifies that driver, the plan to C(return) to it (empty if there is none), the C(services) that were
      stopped, recorded units that are C(ignored) because they are not in O(services), and the resources that the device
      plugin C(offered).
  type: dict
"""


def driver_plan(
    host: Mapping[str, Any],
    versions: Mapping[str, Any],
    wanted: Mapping[str, Any],
    node: Mapping[str, Any] | None = None,
    services: Sequence[str] = (),
) -> dict[str, Any]:
    asked = Wanted(**{**wanted, "version": str(wanted["version"])})
    try:
        return plan(host, asked, versions) if node is None else upgrade(host, asked, versions, node, services)
    except DomainError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"driver_plan": driver_plan}
