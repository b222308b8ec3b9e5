# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._driver.packages import identity

DOCUMENTATION = r"""
name: driver_package
short_description: Name the package that shows which kind of driver is installed
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - The metapackage, or without one the package with the kernel modules. From its name follow the kind of modules, and
    whether it is a whole driver, so that it can be installed again.
positional: _input, version
options:
  _input:
    description: Installed packages and their versions.
    type: dict
    required: true
  version:
    description: The driver's version.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what the loaded driver is made of
  ansible.builtin.debug:
    msg: "{{ preflight_host.nvidia_driver.packages | gpulab.kubernetes.driver_package('580.178.04') }}"
  # {name: nvidia-open-580, version: 580.178.04-1}
"""

RETURN = r"""
_value:
  description: C(name) and C(version) of that package, empty when there is none.
  type: dict
"""


def driver_package(packages: Mapping[str, str], version: str) -> dict[str, str]:
    return identity(packages, str(version))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"driver_package": driver_package}
