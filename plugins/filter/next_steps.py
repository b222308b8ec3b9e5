# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

from ansible import context

from ..module_utils._training.judge import largest_training
from ..plugin_utils._inventory.access import Access
from .run_commands import asks_password

DOCUMENTATION = r"""
name: next_steps
short_description: List the address of a cluster, its kubeconfig and the next commands
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Returns the lines with which a successful run ends. The commands contain the inventories and the option C(-K) of
    this run.
positional: _input, kubeconfig, control_plane
options:
  _input:
    description: Host and port of the API server.
    type: str
    required: true
  kubeconfig:
    description: File in which the administrator's kubeconfig is kept, empty for none.
    type: str
    required: true
  control_plane:
    description: Host on which C(kubectl) works if it doesn't work on the controller.
    type: str
    required: true
  delegate:
    description: Host that works against the API.
    type: str
    default: localhost
  tunnel:
    description: Whether it reaches the API only through SSH.
    type: bool
    default: false
  free_gpus:
    description:
      - For each node, how many GPUs a pod can be given, as M(gpulab.kubernetes.gpu_acceptance) returns them. The
        command that starts a training uses as many of them as possible. Without any, there is no such command.
    type: dict
    default: {}
  kept:
    description: Whether the run has kept an earlier verification. The commands are then omitted.
    type: bool
    default: false
  is_job:
    description: Whether the run is a job of AWX. The commands are then omitted.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show what to do next
  ansible.builtin.debug:
    msg: "{{ cluster_api_server | gpulab.kubernetes.next_steps(cluster_kubeconfig, cluster_control_plane) }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""


def next_steps(
    server: str,
    kubeconfig: str,
    control_plane: str,
    delegate: str = "localhost",
    tunnel: bool = False,
    free_gpus: Mapping[str, int] | None = None,
    kept: bool = False,
    is_job: bool = False,
) -> list[str]:
    inventories = [str(each) for each in context.CLIARGS.get("inventory") or ()]
    access = Access(
        server=str(server),
        control_plane=str(control_plane),
        kubeconfig=str(kubeconfig),
        kubectl=delegate == "localhost" and not tunnel and shutil.which("kubectl") is not None,
        inventory=inventories,
        training=largest_training(free_gpus or {}),
        asks_password=asks_password(),
    )
    return access.next_steps(Path.cwd(), terse=kept or is_job)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"next_steps": next_steps}
