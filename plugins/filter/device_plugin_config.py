# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils._errors import DomainError
from ..module_utils._nvidia.sharing import Sharing, configuration, read

DOCUMENTATION = r"""
name: device_plugin_config
short_description: Create the device plugin's configurations for the declared GPU sharing of hosts
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates one configuration for each sharing mode, and C(exclusive), which nodes without the label
    C(nvidia.com/device-plugin.config) get.
positional: _input, base
options:
  _input:
    description: Declarations, as in C(nvidia_device_plugin_sharing).
    type: list
    elements: dict
    required: true
  base:
    description: Settings that all configurations have in common.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the configurations
  ansible.builtin.debug:
    msg: "{{ [{'mode': 'time_slicing', 'replicas': 4}] | gpulab.kubernetes.device_plugin_config({'version': 'v1'}) }}"
"""

RETURN = r"""
_value:
  description: Configurations by name, as JSON, which the device plugin reads as YAML.
  type: dict
"""


def device_plugin_config(declarations: Iterable[Mapping[str, Any]], base: Mapping[str, Any]) -> dict[str, str]:
    try:
        wanted = [Sharing(), *(read(declaration) for declaration in declarations)]
    except DomainError as error:
        raise AnsibleFilterError(str(error)) from error
    made = {sharing.name: _merged(base, configuration(sharing)) for sharing in wanted}
    return {name: json.dumps(made[name], indent=2, sort_keys=True) + "\n" for name in sorted(made)}


def _merged(base: Mapping[str, Any], special: Mapping[str, Any]) -> dict[str, Any]:
    flags = {**(base.get("flags") or {}), **special["flags"]}
    return {**base, **special, "flags": flags}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"device_plugin_config": device_plugin_config}
