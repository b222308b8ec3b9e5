# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils._errors import DomainError
from ..module_utils._mappings import merged
from ..plugin_utils import _gpu_operator

DOCUMENTATION = r"""
name: gpu_operator_plan
short_description: Compute the values of the GPU Operator's chart, and find problems
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Computes the values of NVIDIA's chart C(gpu-operator) from the existing drivers and toolkits of the hosts. Your own
    values override them.
seealso:
  - module: gpulab.kubernetes.helm_chart_info
positional: _input, wanted, own
options:
  _input:
    description: >-
      Hosts with GPUs: C(host), and if known C(driver) and C(toolkit) (installed versions), C(source) (where the driver
      comes from), C(root) (its root directory), C(devices) (the PCI device IDs of the GPUs) and C(system) (distribution
      and release, such as V(Ubuntu 24.04)).
    type: list
    elements: dict
    required: true
  wanted:
    description: >-
      Settings: C(configs) (device plugin configurations by name, as mappings or as YAML), C(default_config),
      C(tolerations), C(dcgm_exporter), C(driver_version), C(driver_modules), C(http_proxy), C(https_proxy),
      C(no_proxy) (a list).
    type: dict
    required: true
  own:
    description: Values that override the computed values.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show the values that the operator would get
  ansible.builtin.debug:
    msg: "{{ [{'host': 'gpu1', 'driver': '580.178.04', 'toolkit': '1.20.1-1'}]
      | gpulab.kubernetes.gpu_operator_plan({'configs': {'a': {'version': 'v1'}}, 'default_config': 'a'}) }}"
"""

RETURN = r"""
_value:
  description: >-
    C(values), and C(problems) in the form that P(gpulab.kubernetes.preflight_report#filter) accepts.
  type: dict
"""


def gpu_operator_plan(
    hosts: Iterable[Mapping[str, Any]],
    wanted: Mapping[str, Any],
    own: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    try:
        found = [_gpu_operator.Host(**host) for host in hosts]
        settings = _gpu_operator.Wanted(**wanted)
        values = merged(_gpu_operator.computed(found, settings), own or {})
    except (TypeError, DomainError) as error:
        raise AnsibleFilterError(f"Error while computing the GPU Operator's values: {error}") from error
    problems = [
        *_gpu_operator.host_problems(found),
        *_gpu_operator.sharing_problems(settings),
        *_gpu_operator.relation_problems(values),
        *_gpu_operator.image_problems(values, found),
        *_gpu_operator.toolkit_problems(values, found),
        *_gpu_operator.proxy_problems(values, settings),
    ]
    return {"values": values, "problems": [problem.fields() for problem in problems]}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"gpu_operator_plan": gpu_operator_plan}
