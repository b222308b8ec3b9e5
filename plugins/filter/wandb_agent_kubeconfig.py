# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..plugin_utils._wandb.place import kubeconfig

DOCUMENTATION = r"""
name: wandb_agent_kubeconfig
short_description: Create the kubeconfig of a ServiceAccount
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates a kubeconfig with the token in a Secret of the type C(kubernetes.io/service-account-token).
positional: _input, slices, namespace
options:
  _input:
    description: The Secret, as returned by the API. Only the first one counts.
    type: list
    elements: dict
    required: true
  slices:
    description: EndpointSlices of the Service C(kubernetes), which contain the address of the API.
    type: list
    elements: dict
    required: true
  namespace:
    description: Default namespace.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Create a kubeconfig
  ansible.builtin.set_fact:
    kubeconfig: "{{ secrets | gpulab.kubernetes.wandb_agent_kubeconfig(slices, 'default') }}"
  no_log: true
"""

RETURN = r"""
_value:
  description: The kubeconfig. Empty if the token or the address does not exist yet.
  type: str
"""


def wandb_agent_kubeconfig(
    secrets: Sequence[Mapping[str, Any]], slices: Sequence[Mapping[str, Any]], namespace: str
) -> str:
    return kubeconfig(next(iter(secrets), {}), slices, namespace)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"wandb_agent_kubeconfig": wandb_agent_kubeconfig}
