# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._driver.packages import DriverError, Wanted, headers, headers_problem, plan

DOCUMENTATION = r"""
name: driver_plan
short_description: Say which packages make a driver on a host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Decides by the distribution, the source, the branch, the GPUs, Secure Boot, and by what the host has already.
positional: _input, versions
options:
  _input:
    description: The host, as M(gpulab.kubernetes.preflight_info) reads it.
    type: dict
    required: true
  versions:
    description: The table of drivers, C(packages) of each version from the distribution to the packages' version.
    type: dict
    required: true
  version:
    description: The driver's version.
    type: str
    required: true
  source:
    description: V(cuda_repository) or V(distribution).
    type: str
    default: cuda_repository
  modules:
    description: V(open), V(proprietary) or V(auto).
    type: str
    default: auto
  extent:
    description: V(compute) or V(full).
    type: str
    default: compute
  former:
    description: C(name) and C(version) of the package that was there before an upgrade.
    type: dict
    default: {}
  returning:
    description: Whether this is the way back to the former driver.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show what would be installed
  ansible.builtin.debug:
    msg: "{{ preflight_host | gpulab.kubernetes.driver_plan(table, version='580.178.04') }}"
"""

RETURN = r"""
_value:
  description:
    - C(kind) and C(extent) of the driver, its C(branch), the packages' C(version), whether apt C(preferences) have to
      keep its parts together, whether C(dkms) builds its modules, the packages for C(pinning), C(packages), and the
      versions that it C(replaces).
    - C(headers), which all may be missing, and C(headers_problem), what to say when the first of them is missing (empty
      where that does not matter).
    - C(pending), whether packages have to be installed.
  type: dict
"""


def driver_plan(
    host: Mapping[str, Any],
    versions: Mapping[str, Any],
    version: str,
    source: str = "cuda_repository",
    modules: str = "auto",
    extent: str = "compute",
    former: Mapping[str, str] | None = None,
    returning: bool = False,
) -> dict[str, Any]:
    wanted = Wanted(str(version), source, modules, extent, former or {}, returning)
    try:
        found = plan(host, wanted, versions)
    except DriverError as error:
        raise AnsibleFilterError(str(error)) from error
    built = {"headers": headers(host), "headers_problem": headers_problem(host)} if found.dkms else {}
    asked = [*found.pinning, *(each for each in found.packages if not each.get("optional"))]
    pending = not all(_is_there(each, host.get("installed") or {}) for each in asked)
    return {**found.fields(), "headers": [], "headers_problem": "", **built, "pending": pending}


def _is_there(package: Mapping[str, Any], installed: Mapping[str, str]) -> bool:
    name = package["name"]
    return name in installed and package.get("version", "") in ("", installed[name])


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"driver_plan": driver_plan}
