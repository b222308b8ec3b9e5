# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._docker.problems import problems

DOCUMENTATION = r"""
name: docker_problems
short_description: Say what keeps a host from getting Docker as it is declared
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Looks at what M(gpulab.kubernetes.docker_info) has found and at the settings of the role C(docker).
positional: _input, version, table, system, gpus, wanted
options:
  _input:
    description: What M(gpulab.kubernetes.docker_info) returned.
    type: dict
    required: true
  version:
    description: The wanted version.
    type: str
    required: true
  table:
    description: The versions that there are, and under C(packages) those of their packages by distribution.
    type: dict
    required: true
  system:
    description: The distribution, such as V(Debian 12).
    type: str
    required: true
  gpus:
    description: The setting C(docker_gpus), V(none) for a host without GPUs.
    type: str
    required: true
  wanted:
    description:
      - The settings C(default_runtime), C(log_options), C(registry_mirrors), C(data_root) and C(daemon_settings) of
        the role, as they were given.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what is in the way
  ansible.builtin.debug:
    msg: "{{ found | gpulab.kubernetes.docker_problems(version, cluster_versions.docker, 'Debian 12', 'cdi', wanted) }}"
"""

RETURN = r"""
_value:
  description: Sentences, each with what to do; none if nothing is in the way.
  type: list
  elements: str
"""


def docker_problems(found: Mapping[str, Any], *settings: Any) -> list[str]:
    return list(problems(found, *settings))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"docker_problems": docker_problems}
