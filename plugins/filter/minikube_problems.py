# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._minikube.problems import problems

DOCUMENTATION = r"""
name: minikube_problems
short_description: Find what prevents the declared setup of minikube on a host
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Checks the settings of the role C(minikube), including the combination of GPUs, driver and runtime.
positional: _input, table, profile, cluster, hardened
options:
  _input:
    description: Settings C(version), C(sha256), C(profile), C(driver), C(container_runtime), C(gpus) and C(user).
    type: dict
    required: true
  table:
    description: Known versions of minikube.
    type: dict
    required: true
  profile:
    description: State of the profile, as returned by M(gpulab.kubernetes.minikube_profile).
    type: str
    required: true
  cluster:
    description: Whether kubeadm has created a cluster on this host.
    type: bool
    required: true
  hardened:
    description: Value of C(net.core.bpf_jit_harden), empty if it does not exist.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the problems
  ansible.builtin.debug:
    msg: "{{ settings | gpulab.kubernetes.minikube_problems(cluster_versions.minikube, 'absent', false, '0') }}"
"""

RETURN = r"""
_value:
  description: Messages, each with a solution. Empty if there are no problems.
  type: list
  elements: str
"""


def minikube_problems(settings: Mapping[str, Any], *found: Any) -> list[str]:
    return list(problems(settings, *found))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"minikube_problems": minikube_problems}
