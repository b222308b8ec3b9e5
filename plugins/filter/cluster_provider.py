# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Callable

from ..plugin_utils._inventory import provider

DOCUMENTATION = r"""
name: cluster_provider
short_description: Choose the cluster of an inventory that a run is about
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - A cluster of kubeadm is on the hosts of the groups of control plane and workers, one of minikube on a host of its
    own group.
positional: _input, kubeadm, minikube, run
options:
  _input:
    description: The setting C(cluster_provider), or those of all hosts, separated by commas, if they differ.
    type: str
    required: true
  kubeadm:
    description: Hosts of the groups of control plane and workers.
    type: list
    elements: str
    required: true
  minikube:
    description: Hosts of the group of minikube.
    type: list
    elements: str
    required: true
  run:
    description: Hosts of this run.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show which host of minikube is the cluster
  ansible.builtin.debug:
    msg: "{{ ('auto' | gpulab.kubernetes.cluster_provider(['cp1', 'gpu1'], [], ['cp1', 'gpu1'])).host }}"
"""

RETURN = r"""
_value:
  description: The choice.
  type: dict
  contains:
    host:
      description: Host of minikube, empty for a cluster of kubeadm.
      type: str
    problem:
      description: Why there is no choice, and what to do; otherwise empty.
      type: str
"""


def cluster_provider(
    setting: str, kubeadm: Sequence[str], minikube: Sequence[str], run: Sequence[str]
) -> dict[str, Any]:
    return asdict(provider.choose_cluster(str(setting), list(kubeadm), list(minikube), list(run)))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cluster_provider": cluster_provider}
