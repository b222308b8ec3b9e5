# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._docker.problems import problems

DOCUMENTATION = r"""
name: docker_problems
short_description: Find what prevents the declared installation of Docker on a host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Checks the result of M(gpulab.kubernetes.docker_info) and the settings of the role C(docker).
positional: _input, version, table, system, gpus, wanted
options:
  _input:
    description: Result of M(gpulab.kubernetes.docker_info).
    type: dict
    required: true
  version:
    description: Version to install.
    type: str
    required: true
  table:
    description: Known versions, with the versions of their packages by distribution in C(packages).
    type: dict
    required: true
  system:
    description: Distribution, such as V(Debian 12).
    type: str
    required: true
  gpus:
    description: Value of C(docker_gpus), or V(none) for a host without GPUs.
    type: str
    required: true
  wanted:
    description:
      - Values of the role's settings C(default_runtime), C(honor_visible_devices), C(log_options),
        C(registry_mirrors), C(data_root) and C(daemon_settings), and C(kubernetes) - whether the host is, or will be, a
        node of a Kubernetes cluster.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the problems
  ansible.builtin.debug:
    msg: "{{ found | gpulab.kubernetes.docker_problems(version, cluster_versions.docker, 'Debian 12', 'cdi', wanted) }}"
"""

RETURN = r"""
_value:
  description: Messages, each with a solution. Empty if there are no problems.
  type: list
  elements: str
"""


def docker_problems(found: Mapping[str, Any], *settings: Any) -> list[str]:
    return list(problems(found, *settings))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"docker_problems": docker_problems}
