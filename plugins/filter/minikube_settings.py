# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

DOCUMENTATION = r"""
name: minikube_settings
short_description: Resolve the settings of minikube that follow from its driver
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Replaces V(auto) and an empty home directory, and adds the option for the cgroup driver of the host's containerd,
    which minikube would otherwise derive from the version of cgroups.
positional: _input
options:
  _input:
    description: >-
      Declared settings C(driver), C(container_runtime), C(gpus), C(user), C(home) and C(options), the C(host), the host
      that works against the API (C(api_delegate)), and how Ansible connects to the host (C(connection)).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the container runtime
  ansible.builtin.debug:
    msg: "{{ (declared | gpulab.kubernetes.minikube_settings).container_runtime }}"
"""

RETURN = r"""
_value:
  description: >-
    All settings, with C(engine) (service in which Kubernetes runs), C(gives_gpus) (whether pods are given GPUs) and
    C(needs_tunnel) (whether the API is reached only through the host, because it listens in Docker's network).
  type: dict
"""


def minikube_settings(declared: Mapping[str, Any]) -> dict[str, Any]:
    on_host = declared["driver"] == "none"
    engine = "containerd" if on_host else "docker"
    runtime = engine if declared["container_runtime"] == "auto" else declared["container_runtime"]
    automatic = "all" if runtime == "docker" else "none"
    gpus = automatic if declared["gpus"] == "auto" else declared["gpus"]
    home = "/root" if declared["user"] == "root" else f"~{declared['user']}"
    return {
        **declared,
        "container_runtime": runtime,
        "gpus": gpus,
        "home": declared["home"] or home,
        "options": ["--force-systemd=true"] * on_host + list(declared["options"]),
        "engine": engine,
        "gives_gpus": on_host or gpus != "none",
        "needs_tunnel": not on_host
        and declared["api_delegate"] != declared["host"]
        and declared["connection"] != "local",
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"minikube_settings": minikube_settings}
