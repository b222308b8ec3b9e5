# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._minikube.problems import problems

DOCUMENTATION = r"""
name: minikube_problems
short_description: Say what keeps a host from running minikube as it is declared
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Looks at the settings of the role C(minikube), among them which GPUs minikube gives to which driver and runtime.
positional: _input, table, profile, cluster, hardened
options:
  _input:
    description: The settings C(version), C(sha256), C(profile), C(driver), C(container_runtime), C(gpus) and C(user).
    type: dict
    required: true
  table:
    description: The versions of minikube that there are.
    type: dict
    required: true
  profile:
    description: State of the profile, as M(gpulab.kubernetes.minikube_profile) returns it.
    type: str
    required: true
  cluster:
    description: Whether kubeadm has made a cluster on this host.
    type: bool
    required: true
  hardened:
    description: Value of C(net.core.bpf_jit_harden), empty if the host has none.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what is in the way
  ansible.builtin.debug:
    msg: "{{ settings | gpulab.kubernetes.minikube_problems(cluster_versions.minikube, 'absent', false, '0') }}"
"""

RETURN = r"""
_value:
  description: Sentences, each with what to do; none if nothing is in the way.
  type: list
  elements: str
"""


def minikube_problems(settings: Mapping[str, Any], *found: Any) -> list[str]:
    return list(problems(settings, *found))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"minikube_problems": minikube_problems}
