# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..module_utils._cluster import objects
from ..module_utils._cluster.device_plugins import managed

DOCUMENTATION = r"""
name: device_plugin_pods
short_description: Select the pods of the device plugin
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Selects the pods that belong to the DaemonSet of the device plugin or of the GPU Operator's device plugin. Pods that
    only have the same label are left out.
positional: _input, namespaces
options:
  _input:
    description: Pods as returned by the API.
    type: list
    elements: dict
    required: true
  namespaces:
    description: Namespaces of the device plugins.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show the pods of the device plugin
  ansible.builtin.debug:
    msg: "{{ pods.resources | gpulab.kubernetes.device_plugin_pods(['nvidia-device-plugin']) }}"
"""

RETURN = r"""
_value:
  description: C(namespace) and C(name) of each pod, and the name of its C(daemonset).
  type: list
  elements: dict
  sample:
    - namespace: nvidia-device-plugin
      name: nvidia-device-plugin-x7k2p
      daemonset: nvidia-device-plugin
"""


def device_plugin_pods(pods: Sequence[Mapping[str, Any]], namespaces: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"namespace": pod["metadata"]["namespace"], "name": objects.name(pod), "daemonset": daemonset}
        for pod, daemonset in managed(pods, namespaces)
    ]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"device_plugin_pods": device_plugin_pods}
