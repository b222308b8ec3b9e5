# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..plugin_utils._minikube.settings import resolve_settings

DOCUMENTATION = r"""
name: minikube_settings
short_description: Resolve the settings of minikube that follow from its driver
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Replaces V(auto), an empty home directory and an empty version of Kubernetes, and adds the option for the cgroup
    driver of the host's containerd, which minikube would otherwise derive from the version of cgroups.
  - Adds minikube's own networks to the exceptions of the proxy.
positional: _input, table
options:
  _input:
    description: >-
      Declared settings C(version), C(driver), C(kubernetes_version), C(container_runtime), C(gpus), C(user), C(home)
      and C(options), the C(kubectl_version), the C(no_proxy) of the host, the C(host), the host that works against the
      API (C(api_delegate)), and how Ansible connects to the host (C(connection)).
    type: dict
    required: true
  table:
    description: Known versions of minikube, each with the newest C(kubernetes) that it knows.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the container runtime
  ansible.builtin.debug:
    msg: "{{ (declared | gpulab.kubernetes.minikube_settings(cluster_versions.minikube)).container_runtime }}"
"""

RETURN = r"""
_value:
  description: >-
    All settings, with C(engine) (service in which Kubernetes runs), C(gives_gpus) (whether pods are given GPUs),
    C(needs_tunnel) (whether the API is reached only through the host, because it listens in Docker's network),
    C(unit_options) (the options as systemd reads them in a unit) and C(warnings) (what works with restrictions, as
    sentences).
  type: dict
"""


def minikube_settings(declared: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    return resolve_settings(declared, table)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"minikube_settings": minikube_settings}
