# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._preflight.failure import failure
from ..plugin_utils._preflight.model import Cluster, Reading

DOCUMENTATION = r"""
name: access_problems
short_description: Find out why Ansible can't work on a host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Recognizes the messages of Ansible, SSH and sudo, and returns the cause with its remedy.
  - The P(gpulab.kubernetes.preflight_problems#filter) filter includes these problems.
positional: _input, host, ansible_core
options:
  _input:
    description: The result of the task that failed or found the host unreachable.
    type: dict
    required: true
  host:
    description: Name of the host.
    type: str
    required: true
  ansible_core:
    description: Version of ansible-core on the controller.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show why the host can't be read
  ansible.builtin.debug:
    msg: "{{ result | gpulab.kubernetes.access_problems(inventory_hostname, ansible_version.full) }}"
"""

RETURN = r"""
_value:
  description: Problems, in the form that P(gpulab.kubernetes.preflight_report#filter) accepts.
  type: list
  elements: dict
"""


def access_problems(result: Mapping[str, Any], host: str, ansible_core: str) -> list[dict[str, Any]]:
    reading = Reading(host, {}, result)
    return [problem.fields() for problem in failure(reading, Cluster((reading,), {"ansible_core": ansible_core}))]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"access_problems": access_problems}
